"""What a task, an edit, a page and a person cost, and how many machines many of them take: `docs/scaling.md`.

All of it is arithmetic on figures that were measured; what is assumed has a name here and stands on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from tabled import conditions, number, table

if TYPE_CHECKING:
    from figures import Figure, Result

DAY = 86_400
CALLS = 45
"""Assumed: calls of tools in a task."""
REQUESTS = CALLS + 2
"""Of a task to its model: a plan, one for each call, and the last word."""
ANSWER = 10.0
"""Assumed: seconds that a model takes for an answer."""
PEAK = 3
"""Assumed: all tasks of a day come within a third of it."""
CORES, MEMORY = 2, 8000
"""Assumed: a machine's processors, and its memory in MB."""
IN_HAND = 8
"""Tasks that a worker has in hand at most: the default of `--concurrency`."""
KEYS = 4
"""Assumed: keys that a person presses in a second."""
SQLITE, TEMPORAL = "", "-temporal"
"""What stands behind the name of a benchmark that ran a worker, for each engine of workflows."""
NAMES = {SQLITE: "SQLite", TEMPORAL: "Temporal"}


@dataclass(frozen=True)
class Cost:
    """Seconds or kB: of a task itself, and of each call of a tool in it."""

    begun: float
    a_call: float

    @property
    def whole(self) -> float:
        """What a task of so many calls as are assumed costs."""
        return self.begun + CALLS * self.a_call


@dataclass(frozen=True)
class Task:
    """What a task costs on an engine of workflows: seconds of processor, kB of disk, MB of memory."""

    processor: Cost
    disk: Cost
    programs: float
    worker: float
    server: Cost
    """Seconds of processor of the engine's server; none on SQLite."""
    turn: float
    """Seconds that a turn takes beside the model and the call."""

    @property
    def lasting(self) -> float:
        """Return the seconds from the first request to the last, without your commands."""
        return REQUESTS * (ANSWER + self.turn)

    def memory(self, hands: int) -> float:
        """Return the MB of so many tasks in hand, with as many workers as they take."""
        return hands * self.programs + ceil(hands / IN_HAND) * self.worker

    @property
    def hands(self) -> int:
        """Return how many tasks in hand one machine's memory bears, with their workers."""
        most = 0
        while self.memory(most + 1) <= MEMORY:
            most += 1
        return most


def task(results: Callable[[str], Result], engine: str = SQLITE) -> Task:
    """Return what the short and the long tasks that were measured have in common, and what a call adds."""
    short, long = (_load(results(f"{name}{engine}")) for name in ("worker-short", "worker-long"))
    turns = results(f"worker-turns{engine}").value("60 turns", "a turn of the worker", "own, median")

    def cost(name: str) -> Cost:
        more = long["turns of a task"] - short["turns of a task"]
        slope = (long.get(name, 0) - short.get(name, 0)) / more
        return Cost(short.get(name, 0) - short["turns of a task"] * slope, slope)

    return Task(
        processor=cost("processor a task"),
        disk=cost("stored a task"),
        programs=max(each["programs of the tasks"] / each["at once"] for each in (short, long)),
        worker=max(short["worker"], long["worker"]),
        server=cost("of Temporal's server"),
        turn=turns / 1000,
    )


def _load(found: Result, name: str = "load") -> dict[str, float]:
    return {figure.name: figure.value for figure in found.of(name)}


PEOPLE = ("people-20", "people-40", "people-100")


@dataclass(frozen=True)
class Crowd:
    """What people and pages cost a page server: seconds of processor a key, MB, and bytes a key."""

    empty: float
    key: float
    person: float
    page: float
    stored: float
    people: float
    asked: float
    reached: float
    cores: float


def crowd(results: Callable[[str], Result]) -> Crowd:
    """Return what a person and a page take: of 20 people on 4 pages, 40 on 20, and 100 on 20.

    The processor is that of the crowd in which a key took most. Of the largest crowd it is told how many keys
    a second were asked for and reached, and how much processor that took.
    """
    few, more, many = (_load(results(name), "people") for name in PEOPLE)
    person = (many["memory"] - more["memory"]) / (many["people"] - more["people"])
    others = (more["people"] - few["people"]) * person
    return Crowd(
        empty=max(each["memory, nobody there"] for each in (few, more, many)),
        key=max(each["processor a key"] for each in (few, more, many)) / 1000,
        person=person,
        page=(more["memory"] - few["memory"] - others) / (more["pages"] - few["pages"]),
        stored=max(each["stored a key"] for each in (few, more, many)),
        people=many["people"],
        asked=many["keys asked for"],
        reached=many["keys reached"],
        cores=many["processors"],
    )


def assumed(_: Callable[[str], Result]) -> str:
    """Return what nobody measured."""
    return (
        f"Assumed: {CALLS} calls of tools in a task, a model that answers in {ANSWER:g} s, all tasks of "
        "a day "
        f"within {DAY // PEAK // 3600} hours (so {PEAK} times the mean), workers with {IN_HAND} tasks "
        "in hand, "
        f"machines of {CORES} processors and {MEMORY / 1000:g} GB, people who press {KEYS} keys a second."
    )


def costs(results: Callable[[str], Result]) -> str:
    """Return what one of each costs."""
    speed, serve, page = results("speed"), results("serve"), results("page")
    typing = crowd(results)
    lasted = float(results(PEOPLE[-1]).conditions["seconds_of_typing"])
    rows: list[list[str]] = []
    for engine, name in NAMES.items():
        one = task(results, engine)
        of = f"{_mb(one.programs)}"
        rows += [
            [f"a task on {name}, begun and ended", _s(one.processor.begun), of, _kb(one.disk.begun), "2"],
            [
                f"each call of a tool in it, {name}",
                _s(one.processor.a_call),
                "",
                _kb(one.disk.a_call),
                "1",
            ],
            [
                f"so a task of {CALLS} calls, {name}",
                _s(one.processor.whole),
                of,
                _kb(one.disk.whole),
                f"{REQUESTS}",
            ],
            [f"a worker on {name}, besides its tasks", "", _mb(one.worker), "", ""],
        ]
    more = task(results, TEMPORAL).server.whole
    rows += [
        [f"Temporal's server, for a task of {CALLS} calls", _s(more), "", "not measured", ""],
        *(
            [
                f"an edit, {named}, 0.7 MB (the engine alone)",
                _ms(speed.value("one edit", case, "processor")),
                _mb(speed.value("memory", case, "peak")),
                "0",
                "0",
            ]
            for named, case in (("exact", "exact"), ("indented", "10 lines indented"))
        ),
        [
            "an edit of a file of 1 MB through `kakite serve`",
            _ms(serve.value("edits", "kakite", "processor an edit")),
            "",
            "not measured",
            "0",
        ],
        [
            "an MCP server, started",
            _ms(serve.value("servers", "kakite", "processor until then")),
            _mb(serve.value("servers", "kakite", "memory, started")),
            "",
            "0",
        ],
        [
            f"the same after {serve.conditions['edits']} such edits",
            "",
            _mb(serve.value("edits", "kakite", "memory after the edits")),
            "",
            "0",
        ],
        ["a page server, nobody there", "", _mb(typing.empty), "", "0"],
        ["a page of 4 kB that is open", "", _mb(typing.page), "", "0"],
        [
            f"a person who presses {KEYS} keys a second, for {lasted:g} s",
            f"{KEYS * typing.key * 1000:.1f} ms a second",
            _mb(typing.person),
            f"{number(typing.stored)} bytes a key",
            "0",
        ],
        [
            "100 accepted suggestions on a page of 1 MB",
            _ms(max(page.value(each, "accept 100 at once", "processor") for each in ("english", "japanese"))),
            "",
            "not measured",
            "the assistant's own",
        ],
    ]
    heads = ["", "processor", "memory", "disk that stays", "requests to the model"]
    workers = [
        f"{name}{engine}" for engine in NAMES for name in ("worker-short", "worker-long", "worker-turns")
    ]
    sources = (*workers, "speed", "serve", *PEOPLE, "page")
    told = "  \n".join(f"`{name}`: {conditions(results(name))}" for name in sources)
    return table(heads, rows) + "\n\n" + told


def limits(results: Callable[[str], Result]) -> str:
    """Return where each thing ends on one machine, and why there."""
    one = task(results)
    speed, serve = results("speed"), results("serve")
    edit = serve.value("edits", "kakite", "edit of 1 MB") / 1000
    used = serve.value("edits", "kakite", "processor an edit") / 1000
    exact = speed.value("one edit", "exact", "processor") / 1000
    typing = crowd(results)
    rows = [
        [
            f"tasks of {CALLS} calls a day, on SQLite",
            number(floor(CORES * DAY / one.processor.whole)),
            f"processor: {CORES} × {number(DAY)} s over {_s(one.processor.whole)} each; "
            "your commands not counted",
        ],
        [
            "tasks in hand, on SQLite",
            number(one.hands),
            f"memory: {MEMORY / 1000:g} GB over {_mb(one.programs)} each and {_mb(one.worker)} for each "
            f"worker of {IN_HAND}, so {ceil(one.hands / IN_HAND)}; your commands not counted",
        ],
        *(_steps(results(f"workflows{engine}"), name) for engine, name in NAMES.items()),
        [
            "edits of 1 MB a second, one client of one `kakite serve`",
            number(floor(1 / edit)),
            f"measured, one after another: {edit * 1000:.0f} ms each, {used * 1000:.0f} ms of it processor",
        ],
        [
            "exact edits of 0.7 MB a second, the engine alone",
            number(floor(1 / exact)),
            f"one processor: {exact * 1000:.2f} ms each, the best of several runs",
        ],
        [
            "people who type at once, one process of `kakite collab`",
            number(min(floor(typing.reached / KEYS), typing.people)),
            f"measured, not its end: {typing.people:.0f} people reached {typing.reached:.0f} of "
            f"{typing.asked:.0f} keys a second, with {typing.cores:.2f} processors. By arithmetic one "
            "processor "
            f"bears {floor(1 / (KEYS * typing.key))}: {KEYS * typing.key * 1000:.1f} ms a second each",
        ],
    ]
    return table(["on one machine", "at most", "what limits it"], rows, texts=(2,))


def _steps(workflows: Result, engine: str) -> list[str]:
    rate = _rate(workflows, engine)
    together = workflows.value(engine, rate.of, "together")
    why = {
        "SQLite": "`embedded` is for the workers of one machine",
        "Temporal": "a development server on the same machine",
    }
    return [
        f"steps of workflows a second, one worker on {engine}",
        number(floor(rate.value)),
        f"measured: {rate.of} in {number(together)} s; {why[engine]}",
    ]


def _rate(workflows: Result, engine: str) -> Figure:
    found = [figure for figure in workflows.of(engine) if figure.name == "rate"]
    if not found:
        raise KeyError(f"{workflows.benchmark}: {engine}, rate")
    return found[0]


def machines(results: Callable[[str], Result]) -> str:
    """Return what 10, 1 000 and 100 000 tasks a day take, on SQLite where one machine bears them."""
    columns = [
        (tasks, engine, task(results, engine))
        for tasks, engine in ((10, SQLITE), (1_000, SQLITE), (1_000, TEMPORAL), (100_000, TEMPORAL))
    ]
    rows: list[list[str]] = []

    def row(name: str, worth: Callable[[int, Task], float], unit: str = "") -> None:
        rows.append([name, *(f"{number(worth(tasks, one))}{unit}" for tasks, _, one in columns)])

    def hands(tasks: int, one: Task) -> int:
        return ceil(tasks * PEAK * one.lasting / DAY)

    def busy(tasks: int, one: Task) -> float:
        return tasks * PEAK * one.processor.whole / DAY

    def needed(tasks: int, one: Task) -> int:
        return max(ceil(busy(tasks, one) / CORES), ceil(hands(tasks, one) / one.hands))

    row("seconds of a task, without your commands", lambda _, one: one.lasting, " s")
    row("processors that Kakite keeps busy, at the peak", busy)
    row("tasks in hand, at the peak", hands)
    row(f"workers of {IN_HAND} tasks", lambda tasks, one: ceil(hands(tasks, one) / IN_HAND))
    row("memory", lambda tasks, one: one.memory(hands(tasks, one)) / 1000, " GB")
    wanted = [needed(tasks, one) for tasks, _, one in columns]
    told = [
        f"{count}, too many for SQLite" if count > 1 and engine == SQLITE else number(count)
        for count, (_, engine, _) in zip(wanted, columns, strict=True)
    ]
    rows.append([f"machines of {CORES} processors and {MEMORY / 1000:g} GB", *told])
    own = [
        "none" if engine == SQLITE else number(tasks * PEAK * one.server.whole / DAY)
        for tasks, engine, one in columns
    ]
    rows.append(["processors of Temporal's server on top, as the development server takes them", *own])
    row("turns a second at the peak, each one step of a workflow or more", lambda tasks, _: _turns(tasks))
    own = [f"{number(n * PEAK / DAY)} × *c*" for n, _, _ in columns]
    rows.append(["processors on top, at *c* s of your own commands a task", *own])
    own = [f"{number(hands(n, one))} × *m* GB" for n, _, one in columns]
    rows.append(["memory on top, at *m* GB of your own commands a task in hand", *own])
    row("disk that stays, a day", lambda tasks, one: tasks * one.disk.whole / 1e6, " GB")
    row("requests to the model, a day", lambda tasks, _: tasks * REQUESTS)
    row("requests to the model, a second, at the peak", lambda tasks, _: _turns(tasks))
    for name, unit, of in (
        ("cloned a day, at *r* MB a repository", "*r* GB", 1 / 1000),
        ("tokens a day, at *t* thousand a request", "*t* M", REQUESTS / 1000),
        ("money a day, at *p* a task", "*p*", 1),
    ):
        rows.append([name, *(f"{number(tasks * of)} × {unit}" for tasks, _, _ in columns)])
    heads = ["tasks a day", *(f"{number(tasks)}, {NAMES[engine]}" for tasks, engine, _ in columns)]
    return table(heads, rows)


def _turns(tasks: int) -> float:
    return tasks * PEAK * REQUESTS / DAY


def arithmetic(results: Callable[[str], Result]) -> str:
    """Return how the table of machines comes about."""
    one = task(results, TEMPORAL)
    workflows = results("workflows-temporal")
    rate = _rate(workflows, "Temporal")
    lines = (
        "- Seconds of a task = (calls + 2) × (seconds of an answer + what a turn takes besides, measured: "
        f"{task(results).turn:.2f} s on SQLite, {one.turn:.2f} s on Temporal). Tasks in hand = tasks × "
        f"{PEAK} × "
        f"seconds of a task / {number(DAY)}, rounded up.",
        f"- Processors at the peak = tasks × {PEAK} × processor of a task / {number(DAY)}. Memory = "
        "tasks in hand "
        "× memory of a task + workers × memory of a worker. Machines = the larger of processors / "
        f"{CORES} and tasks in hand / the tasks that one machine's memory bears with their workers, "
        "each rounded "
        "up.",
        f"- One worker and one development server of Temporal took {floor(rate.value)} steps a second "
        "here. At "
        f"{number(100_000)} tasks a day your cluster must take {ceil(_turns(100_000))} turns a second at the "
        "peak, each of one step or more.",
    )
    return "\n".join(lines)


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


def _ms(milliseconds: float) -> str:
    return f"{number(milliseconds)} ms"


def _mb(megabytes: float) -> str:
    return f"{number(megabytes)} MB"


def _kb(kilobytes: float) -> str:
    return f"{number(kilobytes)} kB"

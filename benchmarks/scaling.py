"""What a task, an edit, a page and a person cost, and how many machines many of them take: `docs/scaling.md`.

All of it is arithmetic on figures that were measured; what is assumed has a name here and stands on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from tabled import conditions, number, table

if TYPE_CHECKING:
    from figures import Result

DAY = 86_400
CALLS = 45
"""Assumed: calls of tools in a task."""
ANSWER = 10.0
"""Assumed: seconds that a model takes for an answer."""
PEAK = 3
"""Assumed: all tasks of a day come within a third of it."""
CORES, MEMORY = 2, 8000
"""Assumed: a machine's processors, and its memory in MB."""
IN_HAND = 8
"""Tasks that a worker has in hand at most: the default of `--concurrency`."""


@dataclass(frozen=True)
class Task:
    """What a task costs: of itself, and for each call of a tool."""

    processor: float
    processor_a_call: float
    disk: float
    disk_a_call: float
    programs: float
    worker: float

    def whole(self, calls: int) -> float:
        """Return the seconds of processor time of a task."""
        return self.processor + calls * self.processor_a_call

    def stored(self, calls: int) -> float:
        """Return the kB that stay of a task."""
        return self.disk + calls * self.disk_a_call


def task(results: Callable[[str], Result]) -> Task:
    """Return what the short and the long tasks that were measured have in common, and what a call adds."""
    short, long = (_load(results(name)) for name in ("worker-short", "worker-long"))
    more = long["turns of a task"] - short["turns of a task"]
    slopes = {name: (long[name] - short[name]) / more for name in ("processor a task", "stored a task")}
    begun = {name: short[name] - short["turns of a task"] * slope for name, slope in slopes.items()}
    return Task(
        processor=begun["processor a task"],
        processor_a_call=slopes["processor a task"],
        disk=begun["stored a task"],
        disk_a_call=slopes["stored a task"],
        programs=max(short["programs of the tasks"], long["programs of the tasks"]) / short["at once"],
        worker=max(short["worker"], long["worker"]),
    )


def _load(found: Result) -> dict[str, float]:
    return {figure.name: figure.value for figure in found.of("load")}


PEOPLE = ("people-20", "people-40", "people-100")


@dataclass(frozen=True)
class Crowd:
    """What people and pages cost a page server: seconds of processor a second, MB, and bytes a key."""

    empty: float
    processor: float
    memory: float
    page: float
    stored: float


def crowd(results: Callable[[str], Result]) -> Crowd:
    """Return what a person and a page take: of 20 people on 4 pages, 40 on 20, and 100 on 20.

    The processor is that of the crowd in which a person took most: where others keep it from typing as
    fast as it would, a difference of crowds says too little.
    """
    few, more, many = ({f.name: f.value for f in results(name).of("people")} for name in PEOPLE)
    person = (many["memory"] - more["memory"]) / 60
    return Crowd(
        empty=few["memory, nobody there"],
        processor=max(each["processor a person"] for each in (few, more, many)) / 1000,
        memory=person,
        page=(more["memory"] - few["memory"] - 20 * person) / 16,
        stored=max(each["stored a keystroke"] for each in (few, more, many)),
    )


def costs(results: Callable[[str], Result]) -> str:
    """Return what one of each costs."""
    one = task(results)
    speed, serve, page = results("speed"), results("serve"), results("page")
    typing = crowd(results)
    rows = [
        ["a task, begun and ended", _s(one.processor), _mb(one.programs), _kb(one.disk), "2"],
        ["each call of a tool in it", _s(one.processor_a_call), "", _kb(one.disk_a_call), "1"],
        [
            f"so a task of {CALLS} calls",
            _s(one.whole(CALLS)),
            _mb(one.programs),
            _kb(one.stored(CALLS)),
            f"{CALLS + 2}",
        ],
        ["a worker, besides its tasks", "", _mb(one.worker), "", ""],
        [
            "an edit, exact, 0.7 MB (the engine alone)",
            _ms(speed.value("one edit", "exact", "time")),
            _mb(speed.value("memory", "exact", "peak")),
            "0",
            "0",
        ],
        [
            "an edit, indented, 0.7 MB (the engine alone)",
            _ms(speed.value("one edit", "10 lines indented", "time")),
            _mb(speed.value("memory", "10 lines indented", "peak")),
            "0",
            "0",
        ],
        [
            "an edit of a file of 1 MB through `kakite serve`",
            _ms(serve.value("servers", "kakite", "processor an edit")),
            "",
            "not measured",
            "0",
        ],
        [
            "an MCP server, from its start",
            _ms(serve.value("servers", "kakite", "processor until then")),
            _mb(serve.value("servers", "kakite", "memory after the edits")),
            "",
            "0",
        ],
        ["a page server, nobody there", "", _mb(typing.empty), "", "0"],
        ["a page of 4 kB that is open", "", _mb(typing.page), "", "0"],
        [
            "a person who types four keys a second",
            f"{typing.processor * 1000:.1f} ms a second",
            _mb(typing.memory),
            f"{number(typing.stored)} bytes a key",
            "0",
        ],
        [
            "100 accepted suggestions on a page of 1 MB",
            _ms(page.value("japanese", "accept 100 at once", "time")),
            "",
            "not measured",
            "the assistant's own",
        ],
    ]
    heads = ["", "processor", "memory", "disk that stays", "requests to the model"]
    sources = ("worker-short", "worker-long", "speed", "serve", *PEOPLE, "page")
    told = "  \n".join(f"`{name}`: {conditions(results(name))}" for name in sources)
    return table(heads, rows) + "\n\n" + told


def limits(results: Callable[[str], Result]) -> str:
    """Return where each thing ends on one machine, and why there."""
    one = task(results)
    speed, serve, stories = results("speed"), results("serve"), results("stories")
    person = crowd(results).processor
    people = 1 / person
    step = stories.value("SQLite", "a step, published", "processor") / 1000
    edit = serve.value("servers", "kakite", "processor an edit") / 1000
    exact = speed.value("one edit", "exact", "time") / 1000
    rows = [
        [
            f"tasks of {CALLS} calls a day",
            number(CORES * DAY / one.whole(CALLS)),
            f"processor: {CORES} × {DAY} s over {_s(one.whole(CALLS))} each; your commands not counted",
        ],
        [
            "tasks in hand",
            number((MEMORY - one.worker) / one.programs),
            f"memory: {MEMORY / 1000:g} GB over {_mb(one.programs)} each; your commands not counted",
        ],
        [
            "steps of stories a second, one worker on SQLite",
            number(1 / step),
            f"one processor: {step * 1000:.1f} ms each; `embedded` is for the workers of one machine",
        ],
        [
            "edits of 1 MB a second, one `kakite serve`",
            number(1 / edit),
            f"one processor: {edit * 1000:.0f} ms each",
        ],
        [
            "exact edits of 0.7 MB a second, the engine alone",
            number(1 / exact),
            f"one processor: {exact * 1000:.2f} ms each",
        ],
        [
            "people who type at once, one process of `kakite collab`",
            number(people),
            f"one processor: {person * 1000:.1f} ms a second each; 100 were measured, more is arithmetic",
        ],
    ]
    return table(["on one machine", "at most", "what ends it"], rows, texts=(2,))


def machines(results: Callable[[str], Result]) -> str:
    """Return what 10, 1 000 and 100 000 tasks a day take."""
    one = task(results)
    days = (10, 1_000, 100_000)
    lasting = (CALLS + 2) * ANSWER
    rows: list[list[str]] = []

    def row(name: str, worth: Callable[[int], float], unit: str = "") -> None:
        rows.append([name, *(f"{number(worth(tasks))}{unit}" for tasks in days)])

    def busy(tasks: int) -> float:
        return tasks * PEAK * one.whole(CALLS) / DAY

    def hands(tasks: int) -> int:
        return ceil(tasks * PEAK * lasting / DAY)

    def workers(tasks: int) -> int:
        return ceil(hands(tasks) / IN_HAND)

    def memory(tasks: int) -> float:
        return (hands(tasks) * one.programs + workers(tasks) * one.worker) / 1000

    def needed(tasks: int) -> int:
        return ceil(max(busy(tasks) / CORES, memory(tasks) * 1000 / MEMORY))

    row("processors that Kakite keeps busy, at the peak", busy)
    row("tasks in hand, at the peak", hands)
    row(f"workers of {IN_HAND} tasks", workers)
    row("memory", memory, " GB")
    row(f"machines of {CORES} processors and {MEMORY / 1000:g} GB", needed)
    own = [f"{number(n * PEAK / DAY)} × *c*" for n in days]
    rows.append(["processors on top, at *c* s of your own commands a task", *own])
    own = [f"{number(hands(n))} × *m* GB" for n in days]
    rows.append(["memory on top, at *m* GB of your own commands a task in hand", *own])
    row("disk that stays, a day", lambda tasks: tasks * one.stored(CALLS) / 1e6, " GB")
    row("requests to the model, a day", lambda tasks: tasks * (CALLS + 2))
    row("requests to the model, a second, at the peak", lambda tasks: tasks * PEAK * (CALLS + 2) / DAY)
    rows.append(["cloned a day, at *r* MB a repository", *(f"{number(n / 1000)} × *r* GB" for n in days)])
    rows.append(
        [
            "tokens a day, at *t* thousand a request",
            *(f"{number(n * (CALLS + 2) / 1000)} × *t* M" for n in days),
        ]
    )
    rows.append(["money a day, at *p* a task", *(f"{number(n)} × *p*" for n in days)])
    return table(["tasks a day", *(number(tasks) for tasks in days)], rows)


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


def _ms(milliseconds: float) -> str:
    return f"{number(milliseconds)} ms"


def _mb(megabytes: float) -> str:
    return f"{number(megabytes)} MB"


def _kb(kilobytes: float) -> str:
    return f"{number(kilobytes)} kB"

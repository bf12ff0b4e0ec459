"""The tables and pictures of the pages and a row of the READMEs, made of `benchmarks/results`.

What stands between `<!-- figures: NAME -->` and `<!-- end -->` in a page is made anew, and one row of each
README; all else is written by hand. A benchmark without results is told as not measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import figures
import readme
import scaling
from charts import Bar, Cell, Row, bars, grid, lines
from edit_groups import BASELINE, REAL, TITLES, short
from figures import Figure, Result
from tabled import conditions, number, pivot, table

PAGES = ("performance.md", "scaling.md", "install.md")
ALONE = {"install", "drift", "drift-alone", "session"}
"""Stand beside no time of another benchmark, and may be of another run."""
BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


class MixedError(Exception):
    """The results are not all of one run."""


class Results:
    """All results of a folder; each is read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def runs(self) -> dict[str, list[str]]:
        """Return what was measured in each run, as nice as it was: the runs are told as table cells."""
        found: dict[str, list[str]] = {}
        for file in sorted(self._folder.glob("*.json")):
            one = self(file.stem)
            run = one.run
            told = (
                f"`{run.id}` | {run.start} | {run.load} | {one.nice}"
                if run
                else f"not told | {one.conditions['date']} | | {one.nice}"
            )
            found.setdefault(told, []).append(file.stem)
        return found

    def timed_runs(self) -> dict[str, list[str]]:
        """Return the runs of what has to be of one run."""
        return {run: names for run, names in self.runs().items() if not ALONE.issuperset(names)}

    def __call__(self, name: str) -> Result:
        """Return a result. Raises FileNotFoundError if it was not measured."""
        return figures.read(name, self._folder)


def render(folder: Path, root: Path, *, mixed: bool = False) -> None:
    """Write the pages and pictures below a folder anew, from the results of another.

    Raises:
        MixedError: the results are of several runs, or not equally nice, and that is not wanted.
    """
    results = Results(folder)
    compared = results.timed_runs()
    if len(compared) > 1 and not mixed:
        told = "\n".join(f"  {run}: {', '.join(names)}" for run, names in compared.items())
        raise MixedError(f"The results are of several runs (id | began | load | nice):\n{told}")
    docs = root / "docs"
    for name in PAGES:
        page = docs / name
        text = page.read_text(encoding="utf-8")
        page.write_text(BLOCK.sub(lambda found: _filled(found, results), text), encoding="utf-8")
    readme.render(root, results)
    (docs / "pictures").mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        try:
            picture = draw(results)
        except (FileNotFoundError, KeyError):
            continue
        (docs / "pictures" / name).write_text(picture, encoding="utf-8")


def _filled(found: re.Match[str], results: Results) -> str:
    head, name, end = found.groups()
    try:
        inside = BLOCKS[name](results)
    except FileNotFoundError as missing:
        inside = f"Not measured: `{Path(str(missing.filename)).stem}` has no results."
    except KeyError as missing:
        inside = f"Not measured: {missing.args[0]}."
    return f"{head}\n{inside}\n\n{end}"


# Tables


def drift(results: Results) -> str:
    found = results("drift")
    engines = readme.engines(found)
    rows = [
        [
            _group_name(group),
            number(found.value("groups", group, "edits")),
            *(_ends(found, group, each) for each in engines),
        ]
        for group in _measured(found)
    ]
    heads = ["group", "edits", *(_head(engine, found) for engine in engines)]
    told = (
        "In each cell: right % / wrong files %; what is missing to 100 was refused. "
        f"Histories: {found.conditions['histories']}. Seed {found.conditions['seed']}. "
    )
    if any(found.value(group, engine, "unjudged") for group in _measured(found) for engine in engines):
        told += "+?: percent of results that nobody has judged. "
    if found.conditions["left_out"] != "nothing":
        told += f"**Not measured**, because it could not be installed: {found.conditions['left_out']}. "
    around = conditions(found, "seed", "left_out", "histories", named=False)
    return table(heads, rows) + "\n\n" + told + around


def _measured(found: Result) -> list[str]:
    """Return the groups of a result, in the order in which they are told."""
    return [group for group in TITLES if any(each.of == group for each in found.of("groups"))]


def _group_name(group: str) -> str:
    return f"**{TITLES[group]}**" if group in REAL else TITLES[group]


def _head(engine: str, found: Result) -> str:
    return f"{short(engine)} {found.versions.get(engine, '')}".strip()


def _ends(found: Result, group: str, engine: str) -> str:
    wrong = readme.wrong(found, group, engine)
    unjudged = found.value(group, engine, "unjudged")
    told = f"{_share(found.value(group, engine, 'right'))} / {_share(wrong)}"
    return f"{told} +{_share(unjudged)}?" if unjudged else told


def drift_alone(results: Results) -> str:
    found = results("drift-alone")
    rows: list[list[str]] = []
    for group in _measured(found):
        right, refused, edits, wrong, tried, again, misled = (
            found.value("groups", group, name)
            for name in ("right", "refused", "edits", "wrong files", *SECOND)
        )
        share = _share(100 * again / tried) if tried else ""
        kinds = str(len({each.of for each in found.of(f"{group} kinds")}))
        told = [_group_name(group), kinds, number(edits), _share(right), _share(refused), number(wrong)]
        rows.append([*told, number(tried) if tried else "", share, number(misled) if tried else ""])
    heads = ["group", "kinds", "edits", "right %", "refused %", "wrong files"]
    heads += ["second tries", "of them right %", "wrong"]
    told = f"Histories: {found.conditions['histories']}. Seed {found.conditions['seed']}. "
    return table(heads, rows) + "\n\n" + told + conditions(found, "seed", "histories")


SECOND = ("second tries", "second try right", "second try wrong")


def drift_kinds(results: Results) -> str:
    found = results("drift-alone")
    rows: list[list[str]] = []
    count = 0
    for group in _measured(found):
        kinds = found.of(f"{group} kinds")
        count += len({each.of for each in kinds})
        for kind in dict.fromkeys(each.of for each in kinds):
            names = ("edits", "right", "refused", "wrong files")
            edits, right, refused, wrong = (found.value(f"{group} kinds", kind, name) for name in names)
            if right < LOW or wrong:
                told = [TITLES[group], kind, number(edits), _share(right), _share(refused), number(wrong)]
                rows.append(told)
    rest = (
        f"Of the other {count - len(rows)} of {count} kinds, {LOW} % or more end right, and no file is wrong."
    )
    heads = ["group", "kind", "edits", "right %", "refused %", "wrong files"]
    return f"{table(heads, rows, texts=(1,))}\n\n{rest}" if rows else rest


LOW = 99
"""A kind of which less ends right is listed, in percent."""


def runs(results: Results) -> str:
    """Tell of which run the figures are, or of which runs."""
    found, compared = results.runs(), results.timed_runs()
    if len(compared) != 1:
        told = "**These figures come from several runs**, so conditions differ between the tables:\n\n"
        return told + _runs_table(found)
    (main,) = compared
    name, began, load, nice = main.split(" | ")
    told = f"All of one run, {name}, begun at {began} at a load of {load}, nice {nice}"
    others = {run: names for run, names in found.items() if run != main}
    if not others:
        return f"{told}."
    return f"{told}, but for these, which stand beside no time of that run:\n\n{_runs_table(others)}"


def _runs_table(found: dict[str, list[str]]) -> str:
    rows = [[*run.split(" | "), ", ".join(f"`{name}`" for name in names)] for run, names in found.items()]
    return table(["run", "begun", "load", "nice", "benchmarks"], rows, texts=(1, 4))


def install(results: Results) -> str:
    found = results("install")
    extras = found.of("extras")
    rows = [
        [
            f"`{each}`" if each != "base" else each,
            number(found.value("extras", each, "packages")),
            number(found.value("extras", each, "size")),
            number(found.value("extras", each, "installing")),
            FOR[each],
        ]
        for each in _subjects(extras)
    ]
    heads = ["extras", "packages", "MB", "seconds to install", "what for"]
    wheel = f"A wheel of {number(found.value('wheel', 'the wheel', 'size'))} MB. "
    return table(heads, rows, texts=(4,)) + "\n\n" + wheel + conditions(found)


FOR = {
    "base": "`edit`, `serve`, `host`, `undo`, `history`, and debates between CLIs that are installed",
    "debate": "`kakite debate runner`",
    "collab": "shared pages",
    "agent": "the coding agent and its workers",
    "agent,temporal": "workers on many machines",
    "all": "and GitHub, GitLab, traces",
}


def _share(value: float) -> str:
    return "0" if value == 0 else f"{value:.2f}" if value > 99 or value < 1 else f"{value:.1f}"


def edit(results: Results) -> str:
    found = results("speed")
    rows = [
        [
            one.of,
            number(one.value),
            number(one.ratio or 0),
            number(found.figure("memory", one.of, "peak").ratio or 0),
        ]
        for one in found.of("one edit")
        if one.name == "time"
    ]
    heads = ["case", "ms", "times `str.find`", "peak of memory, times the text"]
    return table(heads, rows) + "\n\n" + conditions(found)


def growth(results: Results) -> str:
    found = results("speed")
    return pivot(found.of("growth"), "lines") + "\n\n" + conditions(found)


def slow(results: Results) -> str:
    found = results("speed")
    return pivot(found.of("made to be slow"), "input") + "\n\n" + conditions(found)


def simple(name: str, of: str, first: str) -> Callable[[Results], str]:
    """Return what makes the table of one benchmark as it is."""

    def made(results: Results) -> str:
        found = results(name)
        return pivot(found.of(of), first) + "\n\n" + conditions(found)

    return made


def joined(names: Iterable[str], first: str, tables: dict[str, str]) -> Callable[[Results], str]:
    """Return what makes one table of several: those that are there, under the names that they get."""

    def made(results: Results) -> str:
        told: list[str] = []
        kept: list[Figure] = []
        for name in names:
            try:
                found = results(name)
            except FileNotFoundError:
                told.append(f"Not measured: `{name}` has no results.")
                continue
            for figure in found.figures:
                prefix = tables.get(f"{name}/{figure.table}", tables.get(figure.table))
                if prefix is not None:
                    kept.append(Figure("", f"{prefix}{figure.of}", *_rest(figure)))
            told.append(f"`{name}`: " + conditions(found))
        return pivot(kept, first) + "\n\n" + "  \n".join(told)

    return made


def _rest(figure: Figure) -> tuple[str, float, str, str, float | None]:
    return figure.name, figure.value, figure.unit, figure.baseline, figure.ratio


BLOCKS: dict[str, Callable[[Results], str]] = {
    "runs": runs,
    "drift": drift,
    "drift-alone": drift_alone,
    "drift-kinds": drift_kinds,
    "edit": edit,
    "growth": growth,
    "slow": slow,
    "serve": simple("serve", "servers", "server"),
    "serve-imports": simple("serve", "imports", "whose modules"),
    "serve-edits": simple("serve", "edits", "server"),
    "search": simple("search", "search", "a search by"),
    "host-call": simple("host", "a call", "a call by"),
    "host-start": simple("host", "ten servers", "ten servers"),
    "sandbox": simple("sandbox", "sandboxes", "a sandbox"),
    "workflows": joined(
        ("workflows", "workflows-temporal"), "workflow", {"SQLite": "SQLite: ", "Temporal": "Temporal: "}
    ),
    "turns": joined(("turns",), "loop", {f"{count} turns": f"{count} turns, " for count in (10, 60, 120)}),
    "tokens": simple("tokens", "tokens", "agent"),
    "session": joined(("session",), "a session", {"a turn": ""}),
    "session-rest": joined(
        ("session",), "a session", {"checkpoint": "a checkpoint, ", "start": "", "memory": ""}
    ),
    "worker-turns": joined(
        ("worker-turns", "worker-turns-temporal", "worker-pickup"),
        "worker",
        {"worker-turns-temporal/60 turns": "Temporal: ", "60 turns": "SQLite: ", "pick-up": "SQLite: "},
    ),
    "worker-load": joined(
        ("worker-short", "worker-long", "worker-short-temporal", "worker-long-temporal"),
        "load",
        {
            "load": "SQLite: ",
            "worker-short-temporal/load": "Temporal: ",
            "worker-long-temporal/load": "Temporal: ",
        },
    ),
    "page": joined(("page",), "a page of 1 MB", {"english": "English: ", "japanese": "Japanese: "}),
    "large-page": simple("large-page", "a browser", "page"),
    "people": joined(("people-20", "people-40", "people-100"), "on one server", {"people": ""}),
    "install": install,
    "starting": simple("install", "starting", "to the end of"),
    "assumed": scaling.assumed,
    "costs": scaling.costs,
    "limits": scaling.limits,
    "machines": scaling.machines,
    "arithmetic": scaling.arithmetic,
}


# Pictures


def draw_drift(results: Results) -> str:
    found = results("drift")
    engines = readme.engines(found)
    rows = [
        Row(
            TITLES[group],
            f"{number(found.value('groups', group, 'edits'))} edits",
            group in REAL,
            tuple(
                Cell(
                    found.value(group, engine, "right"),
                    readme.wrong(found, group, engine),
                    found.value(group, engine, "unjudged"),
                )
                for engine in engines
            ),
        )
        for group in _measured(found)
    ]
    count = len([engine for engine in engines if engine not in {"Kakite", BASELINE}])
    notes = [
        "Above the line: edits that models sent, edits of git histories, fragments of real files. "
        "Below it: kinds that we made.",
        f"{count} programs' edit tools; the same edits for all. The baseline is ours: it replaces one exact "
        "occurrence, or refuses.",
    ]
    return grid("Edits: right, refused, wrong", rows, [short(engine) for engine in engines], notes=notes)


def draw_growth(results: Results) -> str:
    found = results("speed")
    names = {"exact": "exact", "indented": "indented", "absent": "absent"}
    sizes = _subjects(found.of("growth"))
    line = {
        told: [(float(size), found.value("growth", size, name)) for size in sizes]
        for name, told in names.items()
    }
    notes = ["One edit of a file of that many lines; both axes in powers of ten.", _moment(found)]
    title = "One edit against the size of the file"
    return lines(title, line, across="lines of the file", up="milliseconds", notes=notes)


def draw_edit(results: Results) -> str:
    found = results("speed")
    rows = [
        Bar(one.of, max(one.ratio or 1, 1), f"{number(one.ratio or 0)} ×  ({number(one.value)} ms)")
        for one in found.of("one edit")
        if one.name == "time"
    ]
    notes = [
        "Times a plain str.find of the same SEARCH in the same text, which compares nothing but bytes;",
        f"in powers of ten. A file of 20 000 lines (0.7 MB). {_moment(found)}",
    ]
    return bars("One edit, beside str.find", rows, notes=notes, powers=True)


def draw_overhead(results: Results) -> str:
    serve, host = results("serve"), results("host")
    named = [
        ("server: until the first answer", serve.figure("servers", "kakite", "start")),
        ("server: one call", serve.figure("servers", "kakite", "one call")),
        ("host: one call", host.figure("a call", "whole host", "time")),
    ]
    sandbox, turns = results("sandbox"), results("turns")
    named += [
        (f"sandbox {one.of}: one command", one)
        for one in sandbox.of("sandboxes")
        if one.name == "exec" and one.ratio
    ]
    named += [
        (f"agent: own time a turn, {one.table}", one)
        for one in turns.figures
        if one.name == "own time" and one.ratio
    ]
    rows = [
        Bar(name, one.ratio, f"{number(one.ratio)} × {one.baseline}")
        for name, one in named
        if one.ratio is not None
    ]
    notes = [
        "Each took turns with what stands beside it, in the same run; dashed: as long as that.",
        "In powers of ten.",
    ]
    return bars("Kakite compared with plain programs", rows, notes=notes, powers=True, mark=1.0)


PICTURES: dict[str, Callable[[Results], str]] = {
    "drift.svg": draw_drift,
    "growth.svg": draw_growth,
    "edit.svg": draw_edit,
    "overhead.svg": draw_overhead,
}


def _subjects(found: list[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.of for figure in found))


def _moment(found: Result) -> str:
    around = found.conditions
    return f"{around['date']}, {around['processors']} processors, load {around['load']}."

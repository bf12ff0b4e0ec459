"""The rows of the READMEs about edits: they say of Kakite and of others what was measured, group by group.

Real edits come first; our own kinds are named as such, and are not summed up: a row says in how many of their
groups a file was wrong, and up to how many.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edit_groups import BASELINE, REAL, TITLES
from tabled import number

if TYPE_CHECKING:
    from figures import Result


def engines(found: Result) -> list[str]:
    """Return the engines of a comparison, Kakite first."""
    return list(dict.fromkeys(each.of for each in found.figures if each.table in TITLES))


def others(found: Result) -> list[str]:
    """Return the engines that are not ours; the baseline is none."""
    return [engine for engine in engines(found) if engine not in {"Kakite", BASELINE}]


def wrong(found: Result, group: str, engine: str) -> float:
    """Return how many percent of a group's files an engine wrote wrongly, in form or in content."""
    return sum(found.value(group, engine, name) for name in ("wrong form", "wrong content"))


class Said(NamedTuple):
    """What a README says of one group: of Kakite, and the least and the most of the others, in percent."""

    edits: str
    right: str
    wrong: int
    unjudged: float
    rights: str
    wrongs: str


class Own(NamedTuple):
    """What it says of the groups of our own making."""

    groups: int
    edits: str
    kakite: int
    """In how many of them Kakite wrote a wrong file."""
    least: int
    """In how many of them the best of the others did, and the most wrong share of any."""
    most: str


def _said(alone: Result, beside: Result, group: str) -> Said:
    peers = others(beside)
    return Said(
        number(alone.value("groups", group, "edits")),
        _floor(alone.value("groups", group, "right")),
        round(alone.value("groups", group, "wrong files")),
        alone.value("groups", group, "unjudged"),
        _span([beside.value(group, engine, "right") for engine in peers]),
        _span([wrong(beside, group, engine) + beside.value(group, engine, "unjudged") for engine in peers]),
    )


def _own(alone: Result, beside: Result) -> Own:
    groups = [group for group in TITLES if group not in REAL and _has(alone, group) and _has(beside, group)]
    peers = others(beside)
    return Own(
        len(groups),
        number(sum(alone.value("groups", group, "edits") for group in groups)),
        sum(alone.value("groups", group, "wrong files") > 0 for group in groups),
        min(sum(wrong(beside, group, engine) > 0 for group in groups) for engine in peers),
        f"{max(wrong(beside, group, engine) for group in groups for engine in peers):.0f}",
    )


def _has(found: Result, group: str) -> bool:
    return any(each.of == group for each in found.of("groups"))


def _floor(share: float) -> str:
    """Return a share with one digit, never better than it is."""
    return f"{int(share * 10) / 10:.1f}".removesuffix(".0") if share < 100 else "100"


def _span(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    told = (f"{each:.1f}" if 0 < each < 10 else f"{each:.0f}" for each in (low, high))
    return "–".join(dict.fromkeys(told))


class Words(NamedTuple):
    """How one language says it."""

    heads: dict[str, str]
    own: str
    ours: Callable[[Said], str]
    unjudged: str
    rest: dict[str, str]
    """What the rest is, that is not right, where that needs to be said."""
    theirs: Callable[[Said, int], str]
    ours_of_own: Callable[[Own], str]
    theirs_of_own: Callable[[Own], str]


ENGLISH = Words(
    {
        "recorded": "edits that models really sent",
        "history": "edits from git histories",
        "exact": "exact fragments, as `str_replace` gets them",
    },
    "traps of our own making",
    lambda said: (
        f"{said.right} % right, {number(said.wrong)} wrong file{'' if said.wrong == 1 else 's'}, "
        f"of {said.edits} edits"
    ),
    ", {} % not judged",
    {"recorded": "; Kakite refused the rest, whose text was nowhere in the file, or in several places"},
    lambda said, count: (
        f"{said.rights} % right, {said.wrongs} % wrong, in {count} other programs' edit tools"
    ),
    lambda own: f"{own.edits} edits in {own.groups} groups: wrong files in {own.kakite} of the groups",
    lambda own: f"wrong files in {own.least} groups or more, up to {own.most} % of a group",
)
JAPANESE = Words(
    {
        "recorded": "モデルが実際に送った編集",
        "history": "git の履歴にある編集",
        "exact": "`str_replace` に渡される、正確な断片",
    },
    "私たちが作った落とし穴",
    lambda said: f"{said.edits} 件で {said.right} % が正しく、誤ったファイルは {number(said.wrong)}",
    "、{} % は未判定",
    {"recorded": "。残りはファイルのどこにもないか、何か所にもあるので、Kakite が拒む"},
    lambda said, count: (
        f"ほかの {count} つのプログラムの編集ツールで、正しいのは {said.rights} %、誤りは {said.wrongs} %"
    ),
    lambda own: f"{own.groups} 群 {own.edits} 件で、誤ったファイルのある群は {own.kakite}",
    lambda own: f"誤ったファイルのある群は {own.least} 以上、一つの群で最大 {own.most} %",
)
CHINESE = Words(
    {
        "recorded": "模型真正发出的编辑",
        "history": "git 历史中的编辑",
        "exact": "`str_replace` 收到的准确片段",
    },
    "我们自己设的陷阱",
    lambda said: f"{said.edits} 次中 {said.right} % 正确，写错 {number(said.wrong)} 个文件",
    "，{} % 未判定",
    {"recorded": "；其余的在文件里没有，或不止一处，Kakite 一律拒绝"},
    lambda said, count: f"{count} 个其他程序的编辑工具：{said.rights} % 正确，{said.wrongs} % 写错",
    lambda own: f"{own.groups} 组共 {own.edits} 次：{own.kakite} 组写错文件",
    lambda own: f"至少 {own.least} 组写错文件，最多占一组的 {own.most} %",
)
LANGUAGES = {"README.md": ENGLISH, "README.ja.md": JAPANESE, "README.zh.md": CHINESE}


def render(root: Path, results: Callable[[str], Result]) -> None:
    """Write the rows of each README below a folder anew, if both benchmarks of edits were measured."""
    try:
        alone, beside = results("drift-alone"), results("drift")
    except FileNotFoundError:
        return
    real = [group for group in REAL if _has(alone, group) and _has(beside, group)]
    count = len(others(beside))
    for name, words in LANGUAGES.items():
        rows = []
        for group in real:
            said = _said(alone, beside, group)
            unjudged = words.unjudged.format(f"{said.unjudged:.1f}") if said.unjudged else ""
            ours = words.ours(said) + unjudged + words.rest.get(group, "")
            rows.append((words.heads[group], ours, words.theirs(said, count)))
        own = _own(alone, beside)
        rows.append((words.own, words.ours_of_own(own), words.theirs_of_own(own)))
        _put(root / name, [f"| {head} | {ours} | {theirs} | `make bench` |" for head, ours, theirs in rows])


def _put(file: Path, rows: list[str]) -> None:
    """Put rows in the place of those that `make bench` makes."""
    lines = file.read_text(encoding="utf-8").split("\n")
    there = [
        at for at, line in enumerate(lines) if line.startswith("| ") and line.endswith("| `make bench` |")
    ]
    lines[there[0] : there[-1] + 1] = rows
    file.write_text("\n".join(lines), encoding="utf-8")

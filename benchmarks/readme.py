"""The row of the READMEs about edits that drift: it says of Kakite and of others what was measured."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tabled import number

if TYPE_CHECKING:
    from figures import Result

BASELINE = "one exact occurrence, or nothing"


class Others(NamedTuple):
    """What engines of others came to: how many they are, and the least and the most of them, in percent."""

    count: int
    right: str
    wrong: str


def others(found: Result) -> Others:
    """Return what was measured of engines that are not ours; the baseline is none."""
    engines = dict.fromkeys(each.of for each in found.of("engines") if each.of not in {"Kakite", BASELINE})

    def shares(*names: str) -> str:
        sums = [sum(found.value("engines", engine, name) for name in names) for engine in engines]
        low, high = min(sums), max(sums)
        return f"{low:.1f}–{high:.0f}" if low < 10 else f"{low:.0f}–{high:.0f}"

    return Others(len(engines), shares("right"), shares("wrong form", "wrong content"))


class Said(NamedTuple):
    """What a README says: of Kakite the share that is right, edits and wrong files, and of the others."""

    right: str
    edits: str
    wrong: int
    others: Others


def _english(said: Said) -> str:
    count = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][said.others.count - 1]
    wrong = {0: "no wrong file", 1: "one wrong file"}.get(said.wrong, f"{said.wrong} wrong files")
    return (
        f"| a drifting edit | lands where it was meant, says what it forgave: {said.right} % right, "
        f"{wrong} in {said.edits} | {said.others.right} % right, {said.others.wrong} % wrong files, "
        f"for {count} other programs' edit tools | `make bench` |"
    )


def _japanese(said: Said) -> str:
    count = "一二三四五六七八九"[said.others.count - 1]
    return (
        f"| ずれた編集 | 意図された場所に入り、何を許したかを言う。"
        f"{said.edits} 件で {said.right} % が正しく、誤ったファイルは {said.wrong} "
        f"| ほかの{count}つのプログラムの編集ツールで、正しいのは {said.others.right} %、"
        f"誤ったファイルは {said.others.wrong} % | `make bench` |"
    )


def _chinese(said: Said) -> str:
    count = "一两三四五六七八九"[said.others.count - 1]
    wrong = "没有写错文件" if said.wrong == 0 else f"写错 {said.wrong} 个文件"
    return (
        f"| 走样的编辑 | 落到本意之处，并说明容忍了什么：{said.edits} 次中 {said.right} % 正确，{wrong} "
        f"| {count}个其他程序的编辑工具：{said.others.right} % 正确，"
        f"{said.others.wrong} % 写错文件 | `make bench` |"
    )


ROWS: dict[str, Callable[[Said], str]] = {
    "README.md": _english,
    "README.ja.md": _japanese,
    "README.zh.md": _chinese,
}


def render(root: Path, results: Callable[[str], Result]) -> None:
    """Write the row of each README below a folder anew, if both benchmarks of drift were measured."""
    try:
        alone, beside = results("drift-alone"), results("drift")
    except FileNotFoundError:
        return
    right = floor(alone.value("edits", "Kakite", "right") * 10) / 10
    edits = number(float(alone.conditions["edits"]))
    wrong = round(alone.value("edits", "Kakite", "wrong files"))
    said = Said(f"{right:.1f}", edits, wrong, others(beside))
    for name, row in ROWS.items():
        _put(root / name, row(said))


def _put(file: Path, told: str) -> None:
    """Put a row in the place of the one that begins with the same cell."""
    head, _, _ = told.partition(" | ")
    lines = file.read_text(encoding="utf-8").split("\n")
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"{head} | "))
    lines[at] = told
    file.write_text("\n".join(lines), encoding="utf-8")

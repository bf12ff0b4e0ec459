"""Figures as Markdown tables."""

from __future__ import annotations

from figures import Figure, Result


def table(heads: list[str], rows: list[list[str]], texts: tuple[int, ...] = ()) -> str:
    """Return a table: the first column is text, and those named; all others are numbers."""
    ruled = "| " + " | ".join("---" if at in {0, *texts} else "--:" for at in range(len(heads))) + " |"
    return "\n".join(
        ["| " + " | ".join(heads) + " |", ruled, *("| " + " | ".join(row) + " |" for row in rows)]
    )


def pivot(found: list[Figure], first: str) -> str:
    """Return figures as one row for each subject and one column for each name; ratios stand in brackets."""
    subjects = list(dict.fromkeys(figure.of for figure in found))
    columns = list(dict.fromkeys((figure.name, figure.unit) for figure in found))
    cells = {(figure.of, figure.name, figure.unit): _cell(figure) for figure in found}
    heads = [first, *(f"{name}, {unit}" if unit else name for name, unit in columns)]
    rows = [[subject, *(cells.get((subject, *column), "") for column in columns)] for subject in subjects]
    bases = list(dict.fromkeys(figure.baseline for figure in found if figure.ratio is not None))
    told = f"\n\nIn brackets: times {' or '.join(bases)}." if bases else ""
    return table(heads, rows) + told


def _cell(figure: Figure) -> str:
    value = number(figure.value)
    return value if figure.ratio is None else f"{value} ({number(figure.ratio)} ×)"


def number(value: float) -> str:
    """Return a number with the digits that it deserves."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.{3 if abs(value) >= 1 else 2}g}"


def conditions(found: Result, *without: str, named: bool = True) -> str:
    """Return under which conditions something was measured, as one line."""
    around = dict(found.conditions)
    nice = around.pop("nice", 0)
    told = (
        f"{around.pop('date')}, {around.pop('processors')} processors, load {around.pop('load')} at the end, "
        f"{around.pop('seconds')} s{f', nice {nice}' if nice else ''}"
    )
    others = ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in around.items() if name not in without
    )
    versions = (
        ", ".join(f"{name} {version}" for name, version in found.versions.items())
        if named
        else (f"python {found.versions['python']}, kakite {found.versions['kakite']}")
    )
    return f"*{'; '.join(part for part in (told, others, versions) if part)}.*"

"""Writes the figures as one HTML page, which needs nothing beside it and holds no text of the person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from kakite.cli.replay.counts import OUTCOMES, ClientCounts, Outcome

Section = tuple[str, ClientCounts]
_Share = tuple[Outcome, int, float]

_COLOURS: Mapping[Outcome, str] = {
    "same": "#2e7d4f",
    "different": "#8a6d1d",
    "landed": "#4c9a6a",
    "suggested": "#3566a8",
    "refused": "#a33b3b",
    "text_unknown": "#8c8c8c",
}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884; }
th { font-weight: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 1.2rem; border-radius: .2rem; overflow: hidden; background: #8882; }
.mark { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; margin-right: .5rem; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>kakite edit replay</title>
<style>{style}</style>
</head>
<body>
<h1>kakite edit replay</h1>
<p>What Kakite makes of the edits in your transcripts, on the same texts. The page holds figures alone.</p>
{body}
</body>
</html>
"""


def build_page(
    sections: Iterable[Section], told: Mapping[Outcome, str], places: Iterable[str], read: Iterable[str]
) -> str:
    """Return the page; ``told`` says what each outcome is, ``places`` and ``read`` what was looked at."""
    parts = [part for name, counts in sections for part in _build_client(name, counts, told)]
    parts += ["<h2>Where it looked</h2>", *(f"<p>{escape(each)}</p>" for each in places)]
    parts += [f"<p>{escape(each)}</p>" for each in read]
    return _PAGE.format(style=_STYLE, body="\n".join(parts))


def _build_client(name: str, counts: ClientCounts, told: Mapping[Outcome, str]) -> Iterable[str]:
    yield f"<h2>{escape(name)}</h2><p>{counts.logs:,} transcripts</p>"
    for title, outcomes in (
        ("Edits that the client applied", counts.applied),
        ("Edits that the client found no place for", counts.failed),
    ):
        yield f"<h3>{title}: {outcomes.total():,}</h3>"
        if outcomes.total():
            shares: list[_Share] = [
                (each, outcomes[each], 100 * outcomes[each] / outcomes.total()) for each in OUTCOMES
            ]
            yield f'<div class="bar">{"".join(_build_bar(each, told) for each in shares)}</div>'
            yield f"<table>{''.join(_build_row(each, told) for each in shares)}</table>"
    yield f"<p>Stopped for another reason: {counts.not_tried:,}. Repeated elsewhere: {counts.repeated:,}.</p>"


def _build_bar(share: _Share, told: Mapping[Outcome, str]) -> str:
    outcome, _, percent = share
    style = f"width: {percent:.3f}%; background: {_COLOURS[outcome]}"
    return f'<div style="{style}" title="{escape(told[outcome])}"></div>'


def _build_row(share: _Share, told: Mapping[Outcome, str]) -> str:
    outcome, number, percent = share
    mark = f'<span class="mark" style="background: {_COLOURS[outcome]}"></span>'
    figures = "".join(f'<td class="number">{each}</td>' for each in (f"{number:,}", f"{percent:.1f} %"))
    return f"<tr><th>{mark}{escape(told[outcome])}</th>{figures}</tr>\n"

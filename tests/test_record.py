"""The pictures of a terminal show what the program prints now."""

from __future__ import annotations

import html
import re

import pytest
from scripts.record import PICTURES, RECORDED, recorded

pytestmark = pytest.mark.docs


def lines(svg: str) -> list[str]:
    """Return the text of a picture, without what differs from run to run: ids and seconds."""
    found: dict[float, str] = {}
    for at, text in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        found[float(at)] = found.get(float(at), "") + html.unescape(text).replace("\xa0", " ")
    joined = "\n".join(found[at].rstrip() for at in sorted(found))
    return re.sub(r"\b[0-9a-f]{10,16}\b", "ID", re.sub(r"\d+\.\d s\b", "SECONDS", joined)).split("\n")


FOREIGN = {"terminal-acpx", "terminal-claude", "terminal-pi"}
"""Pictures of other people's programs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.client if name in FOREIGN else ()) for name in RECORDED],
)
def test_a_picture_of_a_terminal_shows_what_the_command_in_it_prints(name: str) -> None:
    kept = lines((PICTURES / f"{name}.svg").read_text(encoding="utf-8"))
    assert any(re.match(r"\$ (?:(?:acpx .*)?kakite |claude$|pi$)", line) for line in kept)
    assert lines(recorded(name)) == kept, "`make record` draws them anew"

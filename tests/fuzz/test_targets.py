"""The fuzz targets, each with a bounded number of cases; ten times as many in ``make proof``."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS, parser
from tests.lanes import examples

DRAWN = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def cases(target: str) -> st.SearchStrategy[bytes]:
    """Draw seeds that are cut, joined, repeated and written over; or anything at all."""
    pieces = sorted({piece for seed in SEEDS[target] for piece in seed.splitlines(keepends=True)})
    words = sorted(
        {word for seed in SEEDS[target] for word in (*seed.split(b"/"), *seed.split(b'"'), *seed.split())}
    )
    odd = [
        b"\0",
        b"\n",
        b"/",
        b"..",
        b"\xff",
        b"\r\n",
        b'"',
        b"[" * 500,
        b"9" * 5000,
        "\u202e\ud7ff".encode(),
        b"{}",
    ]
    part = st.sampled_from([*pieces, *words, *odd]) | st.binary(max_size=20)
    return (
        st.lists(part, max_size=12).map(b"".join)
        | st.binary(max_size=200)
        | st.builds(written_over, st.sampled_from(SEEDS[target]), st.integers(0, 100), st.binary(max_size=8))
    )


def written_over(seed: bytes, at: int, content: bytes) -> bytes:
    return seed[:at] + content + seed[at + len(content) :]


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_keep_every_promise(target: str) -> None:
    for seed in SEEDS[target]:
        TARGETS[target](seed)


@DRAWN
@given(data=cases("parser"))
def test_no_reply_of_a_model_breaks_the_parser(data: bytes) -> None:
    TARGETS["parser"](data)


@st.composite
def together(draw: st.DrawFn) -> bytes:
    """Draw a text, and a reply about it in one of the formats: most name lines that are there."""
    line = st.sampled_from(["one", "two", "    two", "if x:", "", "\ta = 'b'", "x = 12", "three  ", "日本"])
    lines = draw(st.lists(line | st.text("ab \t\r", max_size=6), min_size=1, max_size=8))
    first = draw(st.integers(0, len(lines) - 1))
    old = lines[first : first + draw(st.integers(1, 3))]
    before, drifted = draw(st.sampled_from([("", ""), ("", ""), ("", " "), ("  ", ""), ("", "x")]))
    search, new = [f"{before}{each}{drifted}" for each in old], draw(st.lists(line, max_size=3))
    at = f"@@ -{first + 1},{len(search)} +{first + 1},{len(new)} @@"
    removed = "".join(f"-{each}\n" for each in search) + "".join(f"+{each}\n" for each in new)
    edit = {"path": "a", "search": "\n".join(search), "replace": "\n".join(new)}
    reply = draw(
        st.sampled_from(
            [
                "\n".join(["a", "<<<<<<< SEARCH", *search, "=======", *new, ">>>>>>> REPLACE", ""]),
                f"--- a/a\n+++ b/a\n{at}\n{removed}",
                f"*** Begin Patch\n*** Update File: a\n@@\n{removed}*** End Patch\n",
                json.dumps({"edits": [edit]}),
            ]
        )
    )
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return f"{end.join([*lines, ''])}\0{reply}".encode()


def test_no_edit_of_a_text_breaks_the_engine_and_most_that_are_drawn_get_there() -> None:
    reached: list[set[str]] = []

    @DRAWN
    @given(data=together())
    def drawn(data: bytes) -> None:
        reached.append(parser(data))

    drawn()
    assert sum("applied" in each for each in reached) > 0.8 * len(reached)
    assert sum("landed" in each for each in reached) > 0.3 * len(reached)


@DRAWN
@given(data=cases("paths"))
def test_no_path_at_all_leaves_the_workspace(data: bytes) -> None:
    TARGETS["paths"](data)


@DRAWN
@given(data=cases("frames"))
def test_no_bytes_break_the_frames(data: bytes) -> None:
    TARGETS["frames"](data)

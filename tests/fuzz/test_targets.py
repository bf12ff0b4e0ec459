"""The fuzz targets, each with a bounded number of cases; ten times as many and more in ``make proof``."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS

COUNT = 3000 if os.environ.get("KAKITE_PROOF") else 150
DRAWN = settings(max_examples=COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


@DRAWN
@given(data=cases("paths"))
def test_no_path_at_all_leaves_the_workspace(data: bytes) -> None:
    TARGETS["paths"](data)


@DRAWN
@given(data=cases("frames"))
def test_no_bytes_break_the_frames(data: bytes) -> None:
    TARGETS["frames"](data)

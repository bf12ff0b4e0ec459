"""Pasted texts that may name pictures: whatever was pasted, nothing is lost and nothing raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.cli.chat.pasted_pictures import PastedPictures

ODD = st.text(st.sampled_from("file:/[]\\'\" ~x.png\0\n#?%"), max_size=30)


@given(st.one_of(ODD, ODD.map(lambda text: f"file://{text}"), st.text()))
def test_no_text_that_is_pasted_raises(text: str) -> None:
    assert PastedPictures().fold(text) == ("", ())


@pytest.mark.parametrize("text", ["file://[host]/x.png", "see file://[x] there", "x " * 500_000])
def test_what_names_no_picture_stays_a_text(text: str) -> None:
    assert PastedPictures().fold(text) == ("", ())


def test_the_path_of_a_picture_becomes_a_word(tmp_path: Path) -> None:
    file = tmp_path / "a b.png"
    file.write_bytes(bytes.fromhex("89504e470d0a1a0a0000000d49484452"))
    word, problems = PastedPictures().fold(f"file://{str(file).replace(' ', '%20')}")
    assert bool(word) != bool(problems)

"""The scripted model follows its script through the same face as a real one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.models.messages import UserMessage
from kakite.models.model import ModelError
from kakite.models.scripted_model import Scenario, ScenarioError, ScriptedModel, split_words

if TYPE_CHECKING:
    from kakite.models.model import Model


def model(text: str) -> ScriptedModel:
    return ScriptedModel(Scenario.parse(text))


def test_its_name_says_that_it_is_scripted() -> None:
    scripted: Model = model("{title: clock, turns: [{say: x}]}")
    assert scripted.name == "scripted:clock"


def test_streamed_words_are_the_whole_text() -> None:
    said: list[str] = []
    scripted = model('{title: t, turns: [{say: "one  two\\nthree "}]}')
    reply = asyncio.run(scripted.reply("", [], [], said.append))
    assert len(said) > 2
    assert "".join(said) == reply.text == "one  two\nthree "


@given(st.text())
def test_no_text_is_lost_between_words(text: str) -> None:
    assert "".join(split_words(text)) == text


def test_a_scripted_error_is_a_model_error() -> None:
    scripted = model("{title: t, turns: [{error: {status: 429, message: slow down, retry_after: 3}}]}")
    with pytest.raises(ModelError) as caught:
        asyncio.run(scripted.reply("", [], []))
    assert (caught.value.code, caught.value.retryable, caught.value.retry_after) == (
        "model_rate_limit",
        True,
        3,
    )


def test_an_unmet_expectation_is_raised_and_kept() -> None:
    scripted = model("{title: t, turns: [{expect: {last_contains: [a]}, say: x}]}")
    with pytest.raises(ScenarioError):
        asyncio.run(scripted.reply("", [UserMessage(text="b")], []))
    assert len(scripted.playback.violations) == 1

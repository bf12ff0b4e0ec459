"""The names of the account and its labels, and the hidden markers in its comments. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

IssueState = Literal["waiting", "processing", "done", "paused", "stopped"]
"""What a task is in, which people see as the one state label of its issue."""

Label = Annotated[str, StringConstraints(pattern=r"^[^\s,][^\n\r,]*$", max_length=50)]
"""GitHub takes 50 characters, GitLab separates labels by commas."""

ISSUE_TEXT_ID = "text"
"""What stands for the text of an issue where ids of comments are told."""


class LabelConfig(BaseModel):
    """The account's name, and the five labels for the state of an issue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mention: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100)] = Field(
        default="kakite", description="Who is meant by `@NAME` in a comment"
    )
    waiting: Label = Field(default="kakite", description="Asks to be worked on")
    processing: Label = Field(default="kakite:processing", description="Is worked on")
    done: Label = Field(default="kakite:done", description="The work is up for review")
    paused: Label = Field(default="kakite:paused", description="Waits for a person")
    stopped: Label = Field(default="kakite:stopped", description="Was given up")

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        if len({label.casefold() for label in self.labels}) < len(self.labels):
            raise ValueError("the five labels must differ, also without regard to case")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """The five labels."""
        return self.waiting, self.processing, self.done, self.paused, self.stopped

    def get_label(self, state: IssueState) -> str:
        """Return the label of a state."""
        match state:
            case "waiting":
                return self.waiting
            case "processing":
                return self.processing
            case "done":
                return self.done
            case "paused":
                return self.paused
            case "stopped":
                return self.stopped


# Which wins where people have set several: what they add to an issue at work is what they want of it, and the
# label that asks for work counts again for any that is not at work.
_AT_WORK: tuple[IssueState, ...] = ("stopped", "paused", "done", "processing")
_AT_REST: tuple[IssueState, ...] = ("waiting", "stopped", "paused", "done")

_KEY_PATTERN = r"[A-Za-z0-9_.:/=+-]+"
_MARKER = re.compile(rf"<!-- kakite:({_KEY_PATTERN}) -->")
_HANDLED_IDS = re.compile(rf"<!-- kakite-answers((?: {_KEY_PATTERN})+) -->")


def find_state(labels: Iterable[str], names: LabelConfig) -> IssueState | None:
    """Return the state that an issue's labels tell; None if they have none of ours."""
    present = {label.casefold() for label in labels}
    at_work = names.processing.casefold() in present
    ranked = _AT_WORK if at_work else _AT_REST
    return next((state for state in ranked if names.get_label(state).casefold() in present), None)


def swap_labels(labels: Iterable[str], state: IssueState, names: LabelConfig) -> frozenset[str]:
    """Return the labels of an issue that is in this state now: one of ours, and all others as they were."""
    ours = {label.casefold() for label in names.labels}
    return frozenset({label for label in labels if label.casefold() not in ours} | {names.get_label(state)})


def format_marker(key: str) -> str:
    """Return the line, hidden from people, that a comment of ours with this key begins with.

    Raises:
        ValueError: the key has other characters than letters and digits of ASCII and ``_.:/=+-``.
    """
    return f"<!-- kakite:{_check_key(key)} -->"


def parse_marker(text: str) -> str | None:
    """Return the key of a comment that begins with a marker. Ask comments of our own account alone."""
    found = _MARKER.match(text)
    return found[1] if found else None


def parse_markers(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of comments of ours, in their order."""
    return tuple(key for key in map(parse_marker, texts) if key is not None)


def format_handled_ids(ids: Iterable[str]) -> str:
    """Return the line, hidden from people, that tells what a comment of ours has taken up.

    Empty for no ids. The task puts it into its progress comment, and so no mention wakes Kakite twice.

    Raises:
        ValueError: as ``format_marker``.
    """
    told = " ".join(map(_check_key, dict.fromkeys(ids)))
    return f"<!-- kakite-answers {told} -->" if told else ""


def parse_handled_ids(texts: Iterable[str]) -> frozenset[str]:
    """Return the ids that our own comments say they have taken up. Never ask comments of others."""
    return frozenset(
        each
        for text in texts
        if parse_marker(text)
        for found in _HANDLED_IDS.finditer(text)
        for each in found[1].split()
    )


def _check_key(text: str) -> str:
    if not re.fullmatch(_KEY_PATTERN, text):
        raise ValueError(f"`{text}` cannot be hidden in a comment")
    return text

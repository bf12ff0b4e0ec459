"""A debate as something to read and to share: JSON of a documented shape, Markdown, and one HTML page."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, cast

from kakite.debate.answers import Answer
from kakite.debate.asking import named, purpose_of
from kakite.debate.comparing import agreement
from kakite.debate.protocol import standing
from kakite.debate.record import Debate, Decision, Judgement, judgements
from kakite.visible import whole, whole_values

Told = dict[str, Any]
"""A value of JSON; the whole one is described in docs/debate.md."""

SCHEMA = 1
"""Of the JSON. A greater one has fields with another meaning; new fields alone do not raise it."""
_NAME = 60
"""Characters of the topic that are in a file's name."""


def as_json(debate: Debate, hide: Callable[[str], str] = str) -> Told:
    """Return all of a debate that is of interest to a reader, as a value of JSON.

    Args:
        debate: which.
        hide: makes texts such that they can be shared; gets each text by itself.
    """
    now = standing(debate)
    told: Told = {
        "schema": SCHEMA,
        "topic": debate.prompt,
        "status": now.status,
        "ended_by": now.ending,
        "agreement": now.agreement,
        "sides": list(debate.terms.names),
        "terms": {
            "mode": debate.terms.mode,
            "order": debate.terms.order,
            "rounds": debate.terms.rounds,
            "cap": debate.terms.cap,
            "seed": debate.terms.seed,
            "budget": asdict(debate.terms.budget),
        },
        "judge": debate.verdict,
        "turns": list(_turns(debate)),
        "dissent": [_judgement(debate, each) for each in now.dissent],
        "spent": _spent(debate),
    }
    return cast("Told", _each_text(whole_values(told), hide))


def write(
    debate: Debate,
    folder: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    now: datetime | None = None,
    instead: tuple[Path, Path, Path] | None = None,
) -> tuple[Path, Path, Path]:
    """Write a debate as Markdown, JSON and HTML, and return these files.

    They are named after the day and the topic, and never written over another file. Each is there whole or
    not at all. What looks like a secret, or is one of the environment, is not in them. ``instead`` are files
    that this has written about the same debate: they get the new text and keep their names.

    Raises:
        OSError: the folder cannot be written.
    """
    from kakite.debate.transcript_markdown import as_markdown
    from kakite.debate.transcript_page import as_page
    from kakite.host.redaction import secrets_of  # loads all of the host, for a second

    told = as_json(debate, secrets_of(environ).text)
    texts = {
        ".md": as_markdown(told),
        ".json": json.dumps(told, ensure_ascii=False, indent=1) + "\n",
        ".html": as_page(told),
    }
    folder.mkdir(parents=True, exist_ok=True)
    if instead:
        for file, text in zip(instead, texts.values(), strict=True):
            _write_one(file, text, move=os.replace)
        return instead
    name = f"{now or datetime.now().astimezone():%Y-%m-%d}-{slug(str(told['topic']), _NAME)}"
    for number in count(1):
        stem = name if number == 1 else f"{name}-{number}"
        with suppress(FileExistsError):
            written = _write_new({folder / f"{stem}{ending}": text for ending, text in texts.items()})
            return cast("tuple[Path, Path, Path]", tuple(written))
    raise AssertionError


def slug(text: str, most: int) -> str:
    """Return the first words of a text for a name that needs no quotes: letters of any script, digits, -."""
    words = re.findall(r"[^\W_]+", text.casefold())
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word[:most]
        if len(longer) > most or len(longer.encode()) > most * 2:
            break
        name = longer
    return name or "debate"


def _turns(debate: Debate) -> list[Told]:
    turns: list[Told] = []
    before = 0
    for number, turn in enumerate(debate.turns, start=1):
        rounds = range(before + 1, before + len(turn.rounds) + 1)
        turns.append(
            {
                "number": number,
                "decision": turn.decision and decision_as_json(turn.decision),
                "rounds": [round_as_json(debate, each) for each in rounds],
            }
        )
        before += len(turn.rounds)
    return turns


def decision_as_json(decision: Decision) -> Told:
    """Return what a person decided."""
    return {"type": decision.kind, "side": decision.side or None, "text": decision.text}


def round_as_json(debate: Debate, number: int) -> Told:
    """Return a round of a debate, and how the sides stood to each other after it."""
    names = debate.terms.names
    replies = debate.rounds[number - 1].replies
    before, after = _at(debate, number, held=False), _at(debate, number, held=True)
    said = {(each.by, each.on): each.opinion for each in judgements(debate, number)}
    complete = len(replies) == len(names)
    matrix = {by: {on: said.get((by, on)) for on in names if on != by} for by in names}
    return {
        "number": number,
        "purpose": purpose_of(before, number, names[0]),
        "complete": complete,
        "agreement": agreement(after) if complete else "unknown",
        "matrix": matrix if said else None,
        "replies": [reply_as_json(debate, number, name) for name in names if name in replies],
    }


def _at(debate: Debate, number: int, *, held: bool) -> Debate:
    """Return the debate as it stood in the turn of that round: once it was held, or before."""
    before = 0
    for place, turn in enumerate(debate.turns):
        if number <= before + len(turn.rounds):
            rounds = turn.rounds[: number - before - (not held)]
            return replace(debate, turns=(*debate.turns[:place], replace(turn, rounds=rounds)), stopped=None)
        before += len(turn.rounds)
    raise AssertionError(number)


def reply_as_json(debate: Debate, number: int, side: str) -> Told:
    """Return what a side replied in a round; with names beside the letters under which it knew answers."""
    reply = debate.rounds[number - 1].replies[side]
    told: Told = {
        "side": side,
        "type": reply.type,
        "seconds": round(reply.seconds, 1),
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "cost_usd": reply.cost_usd,
        "exit_code": reply.exit_code,
        "stderr_tail": reply.stderr_tail,
        "version": reply.version,
    }
    if not isinstance(reply, Answer):
        kept = ("code", "message", "hint", "partial")
        return {**told, **{name: cast("object", getattr(reply, name)) for name in kept}}

    def tell(text: str) -> str:
        return named(debate, number, side, text)

    return {
        **told,
        "text": tell(reply.text),
        "claim": tell(reply.claim),
        "confidence": reply.confidence,
        "key_points": [tell(each) for each in reply.key_points],
        "would_change_my_mind": tell(reply.would_change_my_mind),
        "position": reply.position or None,
        "because": tell(reply.because),
        "verdicts": [_judgement(debate, each) for each in judgements(debate, number) if each.by == side],
        "notes": list(reply.notes),
    }


def _judgement(debate: Debate, each: Judgement) -> Told:
    return {
        "by": each.by,
        "on": each.on,
        "round": each.round,
        "opinion": each.opinion,
        "issues": [named(debate, each.round, each.by, issue) for issue in each.issues],
        "strongest": named(debate, each.round, each.by, each.strongest),
    }


def _spent(debate: Debate) -> Told:
    costs = [reply.cost_usd for each in debate.rounds for reply in each.replies.values()]
    told = [cost for cost in costs if cost is not None]
    return {
        "seconds": round(debate.seconds, 1),
        "tokens": debate.tokens,
        "asks": debate.asks,
        "cost_usd": round(sum(told), 6) if told else None,
    }


def _each_text(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case list():
            return [_each_text(each, change) for each in cast("list[object]", value)]
        case dict():
            return {name: _each_text(each, change) for name, each in cast("Told", value).items()}
        case _:
            return value


def _write_new(texts: Mapping[Path, str]) -> list[Path]:
    """Write files that are not there yet: all of them, or none.

    Raises:
        FileExistsError: one of them is there.
    """
    written: list[Path] = []
    try:
        for file, text in texts.items():
            _write_one(file, text)
            written.append(file)
    except BaseException:
        for file in written:
            file.unlink(missing_ok=True)
        raise
    return written


def _write_one(file: Path, text: str, move: Callable[[str, Path], None] = os.link) -> None:
    """Write a file; unlike a rename, a link takes nobody's place."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=file.suffix, dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(whole(text).encode())
            stream.flush()
            os.fsync(stream.fileno())
        move(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)

"""Writes what a model is asked about a change, with what others wrote marked as such. Pure."""

from __future__ import annotations

import hashlib
import json
import re

from kakite.agent.review.findings import SCHEMA
from kakite.agent.review.source import ReviewedChange
from kakite.agent.run.prompt import load_prompt
from kakite.terminal_text import escape_control, replace_surrogates

_MAX_TEXT = 16_000  # characters of what an author says of a change


def build_review_prompt(change: ReviewedChange) -> str:
    """Return the message: what to do, the change between marks that nobody can forge, the answer's form."""
    title = f"The title: {escape_control(change.title)}\n\n" if change.title else ""
    text = f"The description:\n\n{escape_control(change.text[:_MAX_TEXT])}\n\n" if change.text.strip() else ""
    diff = escape_control(replace_surrogates(change.diff.text))
    # It depends on all that stands between the marks, so nothing there can hold it.
    seal = hashlib.sha256(f"{title}\0{text}\0{diff}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    values = {"marker": f"outside-{seal}", "title": title, "description": text, "diff": diff}
    # At once: what others wrote may look like one of these names.
    asked = re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], load_prompt("pull_review"))
    form = json.dumps(SCHEMA, ensure_ascii=False)
    return f"{asked}\nAnswer with one JSON value that fits this JSON Schema, and nothing else:\n{form}"

"""A document begun anew: the same text, without the history that led there. Pure.

Where the same words are inserted a second time, as from a file that a lost store had written, whoever holds
the first insertion and comes back doubles them. So each document has a history with an id, and one that may
hold such words a second time begins a new history.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pycrdt import Doc

from kakite.collab.file_text import FileText, merged, united
from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions import Suggestions
from kakite.edit import Change, ChangeSet

if TYPE_CHECKING:
    from kakite.collab.store import Stored

WORN = 4
"""How many times as large as its text a document is before it is worth to begin it anew."""


def new_history() -> str:
    """Return the id of a history that begins."""
    return secrets.token_hex(8)


def fresh(text: str) -> bytes:
    """Return a document that holds this text and nothing else, as an update."""
    shared = SharedText()
    if text:
        shared.apply(ChangeSet.of(0, [Change(0, 0, text)]), "file")
    return shared.doc.get_update()


def text_of(update: bytes) -> str:
    """Return the text of a document."""
    doc: Doc[Any] = Doc()
    doc.apply_update(update)
    return str(SharedText(doc))


def common(stored: Stored, file: FileText | None) -> FileText | None:
    """Return what the stored document and the file last had in common."""
    if file is not None and file.source.to_bytes() == stored.writing:
        return file
    return None if stored.base is None else FileText.of(stored.base, stored.encoding)


def brought_in(base: str | None, ours: str, theirs: str) -> ChangeSet:
    """Return the changes of a text that bring in what others wrote. Without a base nothing of either goes."""
    return united(ours, theirs) if base is None and ours else merged(base or "", ours, theirs)


def after_others(stored: Stored, file: FileText | None, page: str) -> Stored:
    """Return what is known of a page whose file may have been written while nobody had it open.

    What the store does not know of may be its own: a store that was put back from a copy knows less than what
    was written from it, and tabs that are open still. So the document then begins anew.
    """
    base = common(stored, file)
    if file is None or base == file:
        return stored
    shared = SharedText()
    shared.doc.apply_update(stored.update)
    told = cast("dict[str, Any]", stored.records.get("suggestions") or {})
    suggestions = restored(shared, told, page)
    before = base.text if base is not None else None
    shared.apply(brought_in(before, str(shared), file.text), "file")
    records = dict(stored.records)
    if suggestions is not None:
        records["suggestions"] = suggestions.to_json()
    return replace(
        stored,
        update=fresh(str(shared)),
        base=file.source.to_bytes(),
        encoding=file.source.encoding,
        writing=None,
        records=records,
        history=new_history(),
    )


def restored(text: SharedText, told: dict[str, Any], page: str) -> Suggestions | None:
    """Return the suggestions that were stored; None if there are none, or none that can be read."""
    if not told:
        return None
    try:
        return Suggestions.from_json(text, told, page=page)
    except (KeyError, TypeError, ValueError):
        return None

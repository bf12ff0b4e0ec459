"""Comments over HTTP: threads on passages are begun, answered, resolved, reopened and removed.

Who may read a page sees its comments; who may write it comments. Where a comment mentions ``@assistant``, the
assistant is asked about the passage, and answers in the thread.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, StringConstraints

from kakite.collab.assistant.conversation import format_request
from kakite.collab.assistant.routes import AssistRequest, LiveRun, LiveRunRegistry, Selection
from kakite.collab.auth.authorize import get_shown_name, get_user, is_named, open_authorized
from kakite.collab.comments.threads import MAX_PASSAGE, MAX_TEXT, CommentThread
from kakite.collab.registry import DocumentRegistry, OpenDocument
from kakite.collab.shared_text import TrackedRange
from kakite.errors import KakiteError

log = logging.getLogger(__name__)

ASSISTANT: Final = re.compile(r"(?<![A-Za-z0-9_.@＠-])[@＠]assistant(?![A-Za-z0-9_-])", re.IGNORECASE)
"""What asks the assistant, in a comment. Japanese and Chinese put no blanks around it."""

CommentText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT)]


class ReplyRequest(BaseModel):
    """A comment for a thread."""

    text: CommentText
    name: Annotated[str, Field(max_length=40)] = ""
    """Who comments, as the page shows them; not used of those who signed in by a name."""


class EditRequest(ReplyRequest):
    """What a comment says from now on. ``name`` is that of its author."""

    comment: str
    """Its id."""


class BeginThreadRequest(ReplyRequest):
    """A comment on a passage."""

    range: Selection
    words: Annotated[str, Field(min_length=1, max_length=MAX_PASSAGE)]
    """What the person saw there."""


class ResolveRequest(BaseModel):
    """Who resolves a thread."""

    name: Annotated[str, Field(max_length=40)] = ""


def add_comments(app: FastAPI, registry: LiveRunRegistry) -> None:
    """Add the routes."""
    pages, answers = registry.pages, _AssistantReplies(registry)
    one = "/api/pages/{page:path}/comments/{thread}"

    @app.post(f"{one}/reply")
    async def reply(page: str, thread: str, said: ReplyRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Answer in a thread."""
        found = await open_authorized(pages, request, page, writes=True)
        by, named = _get_author(request, said.name)
        made = found.comments.reply(thread, said.text, by=by, named=named)
        return await answers.finish(found, made, said, request)

    @app.post(f"{one}/resolve")
    async def resolve(page: str, thread: str, request: Request, who: ResolveRequest) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Resolve a thread: its passage is marked no more."""
        found = await open_authorized(pages, request, page, writes=True)
        made = found.comments.resolve(thread, by=get_shown_name(get_user(request), who.name))
        return await _store(found, made)

    @app.post(f"{one}/reopen")
    async def reopen(page: str, thread: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Open a thread again."""
        found = await open_authorized(pages, request, page, writes=True)
        return await _store(found, found.comments.reopen(thread))

    # Not `remove`: that is how a page is removed, whose name may hold slashes.
    @app.post(f"{one}/delete")
    async def delete(page: str, thread: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Remove a thread with all its comments."""
        found = await open_authorized(pages, request, page, writes=True)
        found.comments.remove(thread)
        await found.save_records()
        return {"version": found.comments.version}

    _add_edit(app, pages)
    _add_list(app, answers)


def _add_edit(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.post("/api/pages/{page:path}/comments/{thread}/edit")
    async def edit(page: str, thread: str, said: EditRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Write one's own comment anew. The assistant is not asked again."""
        found = await open_authorized(pages, request, page, writes=True)
        by, named = _get_author(request, said.name)
        made = found.comments.edit(thread, said.comment, said.text, by=by, named=named)
        return await _store(found, made)


def _get_author(request: Request, name: str) -> tuple[str, bool]:
    """Return what others see of who comments, and whether that is a name that they signed in by."""
    person = get_user(request)
    return get_shown_name(person, name), is_named(person)


def _add_list(app: FastAPI, answers: _AssistantReplies) -> None:
    pages = answers.registry.pages

    @app.get("/api/pages/{page:path}/comments")
    async def list_threads(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """All threads, in the order of the text."""
        comments = (await open_authorized(pages, request, page)).comments
        listed = [comments.to_client_json(each) for each in comments.list_threads()]
        return {"version": comments.version, "threads": listed}

    @app.post("/api/pages/{page:path}/comments", status_code=201)
    async def begin(page: str, said: BeginThreadRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Comment on a passage. 409 ``changed`` if it does not read so any more."""
        found = await open_authorized(pages, request, page, writes=True)
        low, high = sorted((said.range.start, said.range.end))
        seen = TrackedRange(found.text.from_utf16(low), found.text.from_utf16(high))
        span = found.comments.find_passage(seen, said.words)
        by, named = _get_author(request, said.name)
        made = found.comments.begin(span, said.text, by=by, named=named)
        return await answers.finish(found, made, said, request)


async def _store(page: OpenDocument, thread: CommentThread) -> dict[str, object]:
    await page.save_records()
    now = page.comments.get(thread.id)  # others write while it is stored
    return {"thread": page.comments.to_client_json(now), "version": page.comments.version}


class _AssistantReplies:
    """Asks the assistant where a comment mentions it, and brings its answers into their threads."""

    def __init__(self, registry: LiveRunRegistry) -> None:
        self.registry = registry
        self._waiting: set[asyncio.Task[None]] = set()

    async def finish(
        self, page: OpenDocument, thread: CommentThread, said: ReplyRequest, request: Request
    ) -> dict[str, object]:
        """Store a comment, ask the assistant if it is meant, and return the response.

        That it cannot be asked is told as ``problem``; the comment stays.
        """
        told = await _store(page, thread)
        if not ASSISTANT.search(said.text):
            return told
        try:
            thread = page.comments.get(thread.id)
            page.comments.check_room(thread)
            wish = AssistRequest(
                message=_format_thread(thread), selection=_to_selection(page, thread), name=said.name
            )
            running = await self.registry.begin(page, wish, [], get_user(request))
        except KakiteError as error:
            return {**told, "problem": {"code": error.code, "message": error.message, "hint": error.hint}}
        page.used += 1
        page.comments.note_answering(thread.id, 1)
        waiting = asyncio.create_task(self._bring(page, thread.id, running))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        return await _store(page, thread)

    async def _bring(self, page: OpenDocument, thread: str, running: LiveRun) -> None:
        """Wait until a run is over, and put its answer into the thread."""
        try:
            async with aclosing(self.registry.listen(running, 0)) as events:
                async for _ in events:
                    pass
        finally:
            page.used -= 1
            page.comments.note_answering(thread, -1)
        turn = running.turn
        try:
            by = self.registry.assistant.by
            page.comments.reply(thread, turn.text.strip(), by=by, run=turn.id, status=turn.status)
            await page.save_records()
        except KakiteError as error:  # the answer stands in the conversation as well
            log.warning("an answer of the assistant reaches its thread no more: %s", error.message)


def _to_selection(page: OpenDocument, thread: CommentThread) -> Selection | None:
    if thread.is_detached:
        return None
    text, span = page.text, thread.span
    return Selection(start=text.to_utf16(span.start), end=text.to_utf16(span.end))


def _format_thread(thread: CommentThread) -> str:
    """Return what the assistant is asked: the last comment, and what was said before it in the thread."""
    *earlier, last = thread.comments
    parts = [ASSISTANT.sub("", last.text).strip() or "What do you say to this?"]
    if thread.is_detached:
        parts.append(f"This is about a passage that is no longer in the text:\n{thread.quote}")
    if earlier:
        lines = "\n".join(format_request(each.by, each.text) for each in earlier)
        parts.append(f"Said before about this passage:\n{lines}")
    return "\n\n".join(parts)

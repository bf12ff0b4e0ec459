"""Runs the assistant: a person's request in, the model's text and edits out as events.

Each edit of a run stands alone, and one that fails does not affect the others. It means the text that the
model was shown: it is matched there, and carried to the present text. In ``review`` edits become suggestions.
In ``auto`` they are accepted at once, those that arrive together in one transaction, and ``revert`` takes
back the whole run and nothing that people wrote.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kakite.collab.assistant.conversation import (
    MEMORY,
    ChatTurn,
    History,
    build_history,
    format_request,
)
from kakite.collab.assistant.prompt import BUDGET, VisibleDocument, build_context, load_prompt
from kakite.collab.assistant.reply_parser import EditPart, InvalidEdit, ReplyPart, TextPart, create_parser
from kakite.collab.assistant.runs import (
    AssistantEvent,
    AssistantRequest,
    AssistantRun,
    AssistantRunFailed,
    AssistantRunFinished,
    AssistantRunStarted,
    EditFailed,
    EditFound,
    MessageDelta,
    Mode,
    RunError,
    RunStatus,
)
from kakite.collab.suggestions.placement import PlaceChanged
from kakite.collab.suggestions.store import SuggestionNotFound, TextChanged, build_origin
from kakite.edit import EditError
from kakite.edit.formats.target_file import is_same_file
from kakite.errors import KakiteError, UsageError
from kakite.models.messages import Usage, UserMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from kakite.collab.shared_text import TextSnapshot
    from kakite.collab.suggestions.store import Suggestion, Suggestions
    from kakite.edit import Edit
    from kakite.models.messages import Reply
    from kakite.models.model import Model

__all__ = ["Assistant", "AssistantRequest", "AssistantRun", "Mode", "RunError"]

_MAX_EDITS: Final = 500
"""Edits of one reply."""
_MAX_RUNS: Final = 200
"""Runs that are remembered."""
_REVERTABLE: Final = 32
_FATES: Final = {
    "accepted": "were accepted",
    "rejected": "were rejected",
    "pending": "wait for a decision and are not in the page",
    "changed": "wait for a decision and are not in the page, where people have changed the place",
}
_ENDINGS: Final[dict[str, RunStatus]] = {"length": "cut", "refused": "refused"}


@dataclass(slots=True)
class _ActiveRun:
    """A run that goes on."""

    run: AssistantRun
    request: AssistantRequest
    pages: Mapping[str, Suggestions]
    shown: Mapping[str, TextSnapshot]
    """The pages as the model is shown them."""
    model: str = ""
    pieces: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue[str | None])
    answer: asyncio.Task[Reply] | None = None


class Assistant:
    """Answers requests by a model. Knows all runs of a server."""

    def __init__(
        self,
        model: Model | None = None,
        *,
        by: str = "Assistant",
        budget: int = BUDGET,
        memory: int = MEMORY,
        runs: Iterable[AssistantRun] = (),
    ) -> None:
        """Begin.

        Args:
            model: for requests that name no other.
            by: its name, as people see it.
            budget: bytes of pages that the model is shown.
            memory: bytes of earlier turns that it is told.
            runs: those that are known from before.
        """
        self.model = model
        self.by = by
        self.budget = budget
        self.memory = memory
        self.runs: dict[str, AssistantRun] = {run.id: run for run in runs}
        self.changed: Callable[[AssistantRun], None] = lambda _: None
        """Called when a run began, ended, was kept or reverted."""
        self._going: dict[str, _ActiveRun] = {}
        self._pages: dict[str, Mapping[str, Suggestions]] = {}
        """Where the last runs can be reverted."""

    async def run(
        self, request: AssistantRequest, pages: Mapping[str, Suggestions], model: Model | None = None
    ) -> AsyncGenerator[AssistantEvent]:
        """Ask the model, and yield what happens; closing the generator cancels the run.

        What fails is told by events: a model that cannot answer as ``AssistantRunFailed`` before
        ``AssistantRunFinished``.

        Args:
            request: what is asked for.
            pages: the suggestions of every page that the request names.
            model: instead of the assistant's own.

        Raises:
            UsageError: there is no model (``no_model``), or a page that is named is not among ``pages``
                (``no_such_page``).
        """
        asked = model or self.model
        if asked is None:
            raise UsageError("there is no model", hint="start with --model PROVIDER:NAME", code="no_model")
        names = (request.page, *request.pages)
        if missing := [name for name in names if name not in pages]:
            raise UsageError(f"there is no page `{missing[0]}`", code="no_such_page")
        run = AssistantRun(id=secrets.token_hex(4), by=self.by, page=request.page, mode=request.mode)
        shown = {name: pages[name].text.take_snapshot() for name in dict.fromkeys(names)}
        going = _ActiveRun(run, request, {name: pages[name] for name in names}, shown, asked.name)
        self._begin(going)
        try:
            yield AssistantRunStarted(run=run.id)
            usage = Usage()
            past = build_history(request.past, self.memory, lambda turn: self._describe_edits(turn, pages))
            going.answer = asyncio.create_task(_request_reply(asked, going, self.budget, past))
            going.answer.add_done_callback(lambda _: going.pieces.put_nowait(None))
            async with aclosing(self._stream_events(going)) as events:
                async for event in events:
                    yield event
            if run.status == "running":
                usage = going.answer.result().usage
                run.status = _ENDINGS.get(going.answer.result().finish, "done")
            yield AssistantRunFinished(status=run.status, usage=usage, edits=run.edits, failures=run.failures)
        except Exception:
            run.status = "failed"
            raise
        finally:
            await self._end(going)

    def cancel(self, run: str) -> AssistantRun:
        """End a run that goes on; of one that is over nothing changes.

        Raises:
            RunError: there is no such run.
        """
        found = self._get_run(run)
        if found.status == "running":
            found.status = "cancelled"
            going = self._going.get(run)
            if going and going.answer:
                going.answer.cancel()
        return found

    def revert(self, run: str) -> AssistantRun:
        """Take back all edits of a run that were accepted, in one transaction a page, and reject its others.

        What people wrote stays, also inside of what is taken back. A run that goes on is cancelled.

        Raises:
            RunError: there is no such run, or it cannot be reverted any more.
        """
        found = self.cancel(run)
        pages = self._pages.get(run)
        if pages is None or any(not suggestions.can_revert(run) for suggestions in pages.values()):
            raise RunError(f"run `{run}` cannot be reverted any more", code="not_revertable")
        for suggestions in pages.values():
            suggestions.text.undo(build_origin(run))
            suggestions.reject_all(one.id for one in suggestions.list_pending() if one.run == run)
        found.reverted = True
        self._pages.pop(run)
        self.changed(found)
        return found

    def keep(self, run: str) -> AssistantRun:
        """Forget how to revert a run.

        Raises:
            RunError: there is no such run.
        """
        found = self._get_run(run)
        for suggestions in self._pages.pop(run, {}).values():
            suggestions.text.forget_undo(build_origin(run))
        found.kept = True
        self.changed(found)
        return found

    def _describe_edits(self, turn: ChatTurn, pages: Mapping[str, Suggestions]) -> str:
        """Tell what became of the edits of an earlier answer, as far as it is known."""
        if (run := self.runs.get(turn.id)) is not None and run.reverted:
            return "Its edits were taken back."
        counts: dict[str, int] = {}
        for page, suggestion in turn.list_edits():
            if (status := _get_status(pages, page, suggestion)) is not None:
                counts[status] = counts.get(status, 0) + 1
        told = [f"{count} {_FATES[status]}" for status, count in counts.items()]
        return f"Of its edits {', '.join(told)}." if told else ""

    def _get_run(self, run: str) -> AssistantRun:
        if run not in self.runs:
            raise RunError(f"there is no run `{run}`")
        return self.runs[run]

    def _begin(self, going: _ActiveRun) -> None:
        run = going.run
        self.runs[run.id] = run
        self._going[run.id] = going
        self._pages[run.id] = going.pages
        for known, most in ((self.runs, _MAX_RUNS), (self._pages, _REVERTABLE)):
            for oldest in [id_ for id_ in known if id_ not in self._going][: max(len(known) - most, 0)]:
                del known[oldest]
        self.changed(run)

    async def _end(self, going: _ActiveRun) -> None:
        run = going.run
        if run.status == "running":
            run.status = "cancelled"
        self._going.pop(run.id, None)
        for snapshot in going.shown.values():
            snapshot.close()
        if going.answer and not going.answer.done():
            going.answer.cancel()
            await asyncio.wait([going.answer])
        self.changed(run)

    async def _stream_events(self, going: _ActiveRun) -> AsyncGenerator[AssistantEvent]:
        """Yield what the reply holds, as it comes, and why it ended early."""
        assert going.answer is not None
        reply = create_parser(going.request.format, several=bool(going.request.pages))
        heard = False
        async with aclosing(_stream_text(going)) as texts:
            async for text in texts:
                heard = True
                going.run.reply += text
                for event in self._process_parts(going, reply.feed(text)):
                    yield event
        if going.run.status != "running":
            return
        problem = _find_failure(going.answer)
        rest: list[ReplyPart] = []
        if problem is None and not heard:  # a model that does not stream
            going.run.reply = _replace_lone_surrogates(going.answer.result().text)
            rest += reply.feed(going.run.reply)
        rest += reply.close()
        if problem is not None:  # of a reply that broke off, its last edit is no failure of its own
            rest = [part for part in rest if isinstance(part, TextPart)]
        for event in self._process_parts(going, rest):
            yield event
        if problem is not None:
            going.run.status = "failed"
            yield problem

    def _process_parts(self, going: _ActiveRun, parts: Sequence[ReplyPart]) -> list[AssistantEvent]:
        """Return what parts of a reply lead to; edits that arrive together are applied together."""
        events: list[AssistantEvent] = []
        for part in parts:
            if isinstance(part, TextPart):
                events.append(MessageDelta(text=part.text))
            elif isinstance(part, InvalidEdit):
                events.append(_convert_invalid_edit(part, going.request.page))
            else:
                events += self._propose_edit(going, part)
        if going.request.mode == "auto":
            events = _accept_edits(events, going.pages)
        for event in events:
            if isinstance(event, EditFound):
                going.run.edits += 1
                going.run.edited[event.page] = going.run.edited.get(event.page, 0) + 1
        going.run.failures += sum(isinstance(event, EditFailed) for event in events)
        return events

    def _propose_edit(self, going: _ActiveRun, part: EditPart) -> Iterable[AssistantEvent]:
        page = _resolve_target(part.edit, going.request)
        if part.index >= _MAX_EDITS:
            problem = f"the reply has more than {_MAX_EDITS} edits"
            return [
                _create_edit_failed(
                    part, going.request.page, "too_many_edits", problem, "ask for less at once"
                )
            ]
        if isinstance(page, _UnclearTarget):
            hint = f"the pages of this request are {', '.join((going.request.page, *going.request.pages))}"
            return [_create_edit_failed(part, going.request.page, page.code, page.message, hint)]
        suggestions = going.pages[page]
        try:
            made = suggestions.propose_each(
                part.edit,
                run=going.run.id,
                by=going.run.by,
                reason=part.reason,
                model=going.model,
                shown=going.shown[page],
            )
        except EditError as error:
            return [_convert_edit_error(part, page, error)]
        except PlaceChanged as error:
            return [_create_edit_failed(part, page, error.code, error.message, error.hint)]
        return [_create_edit_found(part.index, page, one, suggestions) for one in made]


async def _request_reply(model: Model, going: _ActiveRun, budget: int, past: History) -> Reply:
    request = going.request
    several = load_prompt(f"several_{request.format}") if request.pages else ""
    instructions = load_prompt(request.format).replace("{several}", several)
    shown = [VisibleDocument(name, snapshot.text) for name, snapshot in going.shown.items()]
    shown[0] = VisibleDocument(shown[0].name, shown[0].text, request.selection)
    asked = format_request(request.by, request.message)
    text = f"{past.lead}{build_context(shown, budget=budget)}\n\n{asked}"
    return await model.reply(
        instructions, [*past.messages, UserMessage(text=text)], [], going.pieces.put_nowait
    )


def _get_status(pages: Mapping[str, Suggestions], page: str, suggestion: str) -> str | None:
    try:
        return pages[page].get(suggestion).status
    except (KeyError, SuggestionNotFound):
        return None


async def _stream_text(going: _ActiveRun) -> AsyncGenerator[str]:
    """Yield the text of the reply: each time all that has come."""
    is_over = False
    while not is_over:
        pieces = [await going.pieces.get()]
        while not going.pieces.empty():
            pieces.append(going.pieces.get_nowait())
        is_over = None in pieces
        text = "".join(piece for piece in pieces if piece is not None)
        if text and going.run.status == "running":
            yield _replace_lone_surrogates(text)


def _replace_lone_surrogates(text: str) -> str:
    """Return a text without halves of characters, which no JSON can hold."""
    return text.encode("utf-8", "replace").decode()


def _find_failure(answer: asyncio.Task[Reply]) -> AssistantRunFailed | None:
    try:
        answer.result()
    except KakiteError as error:
        return AssistantRunFailed(code=error.code, message=error.message, hint=error.hint)
    return None


@dataclass(frozen=True, slots=True)
class _UnclearTarget:
    code: str
    message: str


def _resolve_target(edit: Edit, request: AssistantRequest) -> str | _UnclearTarget:
    """Return the page that an edit is for."""
    names = (request.page, *request.pages)
    if not edit.path:
        mentioned = {name for name in names if any(is_same_file(name, each) for each in edit.mentioned)}
        if len(mentioned) < 2 or not request.pages:
            return mentioned.pop() if mentioned and request.pages else request.page
        return _UnclearTarget("page_unclear", "the edit does not say which page it is for")
    if edit.path in names:
        return edit.path
    alike = [name for name in names if is_same_file(name, edit.path) or is_same_file(edit.path, name)]
    if len(alike) == 1:
        return alike[0]
    return _UnclearTarget(
        "no_such_page", f"the edit is for `{edit.path}`, which is not a page of this request"
    )


def _accept_edits(events: Sequence[AssistantEvent], pages: Mapping[str, Suggestions]) -> list[AssistantEvent]:
    """Accept what was found, in one transaction a page; return what came of it."""
    found = [event for event in events if isinstance(event, EditFound)]
    for page in dict.fromkeys(event.page for event in found):
        pages[page].accept_all(event.suggestion.id for event in found if event.page == page)
    return [_accept_edit(event, pages) if isinstance(event, EditFound) else event for event in events]


def _accept_edit(event: EditFound, pages: Mapping[str, Suggestions]) -> AssistantEvent:
    suggestions = pages[event.page]
    one = suggestions.get(event.suggestion.id)
    try:
        if one.status != "accepted":
            one = suggestions.accept(one.id, candidate=True)
    except TextChanged as error:
        suggestions.reject(one.id)
        problem = "another edit of the reply has changed this place"
        return EditFailed(
            index=event.index, page=event.page, code=error.code, message=problem, hint=error.hint
        )
    return _create_edit_found(event.index, event.page, one, suggestions)


def _create_edit_found(index: int, page: str, one: Suggestion, suggestions: Suggestions) -> EditFound:
    return EditFound(index=index, page=page, suggestion=one, shown=one.to_json(suggestions.text))


def _create_edit_failed(part: EditPart, page: str, code: str, message: str, hint: str) -> EditFailed:
    return EditFailed(index=part.index, page=page, code=code, message=message, hint=hint)


def _convert_invalid_edit(part: InvalidEdit, page: str) -> EditFailed:
    return EditFailed(index=part.index, page=page, code=part.code, message=part.message, hint=part.hint)


def _convert_edit_error(part: EditPart, page: str, error: EditError) -> EditFailed:
    failure = error.failures[0]
    return EditFailed(
        index=part.index,
        page=page,
        code=failure.code,
        message=failure.message,
        hint=failure.hint,
        candidates=tuple(
            {"line": each.line, "lines": each.lines, "score": each.score, "text": each.text}
            for each in failure.candidates
        ),
    )

"""Offers the documents as MCP tools: another agent's edits become suggestions, as the assistant's do.

The editor has the commands that models know, and works on the text in the page, not in the file. An edit
means the page as it was viewed last.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from kakite.collab.comments.threads import MAX_PASSAGE, MAX_TEXT, CommentThread, CommentThreads
from kakite.collab.registry import DocumentRegistry, OpenDocument
from kakite.collab.shared_text import SharedText, TextSnapshot
from kakite.collab.suggestions.placement import PlaceChanged
from kakite.collab.suggestions.store import Suggestion, compute_changes, get_line_number
from kakite.edit import ChangeSet, Edit, EditError, FieldNames, render_for_model
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolError, ToolResult
from kakite.tools.editor.text_editor import TEXT_EDITOR
from kakite.tools.text_pages import render_page, split_lines
from kakite.tools.toolset import JsonObject
from kakite.workspace import WorkspaceError

Mode = Literal["review", "auto"]
"""Whether a person accepts each edit, or it is in the text at once."""

INSTRUCTIONS = """\
Pages that people are writing at this moment. View a page before you edit it, and view it again when an edit
is refused: people type meanwhile. In review mode an edit becomes a suggestion, which is in the text only once
a person accepts it; page_suggestions says what became of yours. Keep edits small. People discuss passages in
comments: page_comments lists them, and answers."""

_MAX_VIEWS = 64
"""Pages whose last view is kept."""
_COMMANDS = ("view", "create", "str_replace", "insert")
_WORDS = FieldNames(search="`old_str`", replace="`new_str`", takes_line=False)

PAGE_SUGGESTIONS = Tool(
    name="page_suggestions",
    title="Suggestions for a page",
    description="List the suggestions for a page that nobody has accepted or rejected yet.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "The page's name"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)

PAGE_COMMENTS = Tool(
    name="page_comments",
    title="Comments on a page",
    description=f"""\
List the comments on passages of a page, and take part.
- list: all threads, each with its id, passage and comments.
- add: begin a thread with `text` on the passage `words`, which must stand in one place of the page.
- reply: add `text` to `thread`. One that was resolved is open again.
- resolve: mark `thread` as done.
A comment has {MAX_TEXT} characters at the most, a passage {MAX_PASSAGE}. The page's text does not change.""",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["list", "add", "reply", "resolve"]},
            "path": {"type": "string", "description": "The page's name"},
            "thread": {"type": "string", "description": "The id of a thread"},
            "words": {"type": "string", "minLength": 1, "maxLength": MAX_PASSAGE},
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        },
        "required": ["command", "path"],
        "additionalProperties": False,
    },
    effect="write",
)


def open_tools(pages: DocumentRegistry, mode: Mode = "review", *, by: str = "MCP") -> FunctionToolset:
    """Return the toolset; ``by`` is who the suggestions are said to be from."""
    editor = _SuggestionEditor(pages, mode, by)
    return FunctionToolset(
        FunctionTool(_describe_editor(mode), editor.perform),
        FunctionTool(PAGE_SUGGESTIONS, editor.list_suggestions),
        FunctionTool(PAGE_COMMENTS, editor.comment),
    )


def resolve_document_name(pages: DocumentRegistry, path: str) -> str:
    """Return the name of the page that a tool is called with."""
    return path.removeprefix(f"{pages.workspace.roots[0]}/").removeprefix("./")


def _describe_editor(mode: Mode) -> Tool:
    """Return the editor's tool without what pages cannot do."""
    properties: JsonObject = dict(TEXT_EDITOR.parameters["properties"])
    properties["command"] = {"type": "string", "enum": list(_COMMANDS)}
    properties["path"] = {"type": "string", "description": "The page's name; `.` for the list of pages"}
    for other in ("overwrite", "preview", "edits", "suggestion"):
        del properties[other]
    what = "becomes a suggestion that a person accepts or rejects" if mode == "review" else "is made at once"
    return replace(
        TEXT_EDITOR,
        description=f"""\
View and edit pages that people are writing at this moment. An edit {what}; a refused one changed nothing.
- view: a page with line numbers (they are not part of the text), or `.`, all pages.
- create: a new page with `file_text`; refused if it exists.
- str_replace: put `new_str` in place of `old_str`, which must name one place; `replace_all`: in every.
- insert: put `insert_text` after line `insert_line` (0: at the top).
`description` says why, for the person who decides.""",
        parameters={
            **TEXT_EDITOR.parameters,
            "properties": properties,
            "required": ["command", "path"],
        },
    )


@dataclass(frozen=True, slots=True)
class _SuggestionEditor:
    """The commands."""

    pages: DocumentRegistry
    mode: Mode
    by: str
    views: dict[str, tuple[SharedText, TextSnapshot]] = field(
        default_factory=dict[str, tuple[SharedText, TextSnapshot]]
    )
    """The pages as they were viewed last."""

    async def perform(self, arguments: JsonObject) -> ToolResult:
        """Perform a call of the editor."""
        commands: dict[str, Callable[[str, JsonObject], Awaitable[ToolResult]]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
        }
        return await commands[arguments["command"]](self._resolve_name(arguments["path"]), arguments)

    async def list_suggestions(self, arguments: JsonObject) -> ToolResult:
        """List what is pending."""
        page = await self._open_owned(self._resolve_name(arguments["path"]))
        pending = page.suggestions.list_pending()
        lines = [f"{each.id}  line {each.line}  {each.status}  by {each.by}" for each in pending]
        counts = page.suggestions.counts
        told = f"{counts['accepted']} accepted and {counts['rejected']} rejected so far"
        return ToolResult(text="\n".join([*(lines or ["none are pending"]), told]))

    async def comment(self, arguments: JsonObject) -> ToolResult:
        """List the comments of a page, or add to them."""
        page = await self._open_owned(self._resolve_name(arguments["path"]))
        command = arguments["command"]
        if command == "list":
            return ToolResult(text=_format_threads(page))
        if not self.pages.is_writable(page.name):
            raise ToolError(f"`{page.name}` may only be read", code="write_denied")
        thread = self._comment(page.comments, command, arguments)
        await page.save_records()
        return ToolResult(text=_format_thread(page, thread), details={"id": thread.id})

    def _comment(self, comments: CommentThreads, command: str, arguments: JsonObject) -> CommentThread:
        if command == "add":
            span = comments.find_only_passage(_get_required(arguments, "words"))
            return comments.begin(span, _get_text(arguments), by=self.by, named=True)
        thread = _get_required(arguments, "thread")
        if command == "reply":
            return comments.reply(thread, _get_text(arguments), by=self.by, named=True)
        return comments.resolve(thread, by=self.by)

    def _resolve_name(self, path: str) -> str:
        return resolve_document_name(self.pages, path)

    async def _open_owned(self, name: str) -> OpenDocument:
        """Return a page whose suggestions are this process's: one that is not was another's a moment ago."""
        page = await self.pages.open(name)
        if not page.is_owner:
            raise ToolError(
                f"another process has `{name}`", hint="try again in some seconds", code="elsewhere"
            )
        return page

    async def _view(self, name: str, arguments: JsonObject) -> ToolResult:
        if name in {"", ".", "/", self.pages.workspace.roots[0]}:
            names = [each.name for each in await self.pages.list_documents()]
            return ToolResult(text="\n".join(names) or "(no pages)")
        page = await self.pages.open(name)
        told = render_page(str(page.text), name, arguments.get("view_range")).text
        self._keep_view(name, page.text)
        return ToolResult(text=told)

    def _keep_view(self, name: str, text: SharedText) -> None:
        if (former := self.views.pop(name, None)) is not None:
            former[1].close()
        self.views[name] = (text, text.take_snapshot())
        while len(self.views) > _MAX_VIEWS:
            _, oldest = self.views.pop(next(iter(self.views)))
            oldest.close()

    def _find_view(self, page: OpenDocument) -> TextSnapshot | None:
        """Return the page as it was viewed last; None: it was not, or it has a new document since."""
        text, shown = self.views.get(page.name, (None, None))
        return shown if text is page.text else None

    async def _create(self, name: str, arguments: JsonObject) -> ToolResult:
        text = _get_required(arguments, "file_text")
        try:
            await self.pages.create(name, text, by="MCP")
        except WorkspaceError as error:
            raise ToolError(error.message, hint=error.hint, code=error.code) from error
        return ToolResult(text=f"Created the page `{name}`")

    async def _str_replace(self, name: str, arguments: JsonObject) -> ToolResult:
        edit = Edit(
            search=_get_required(arguments, "old_str"),
            replace=arguments.get("new_str", ""),
            all=arguments.get("replace_all", False),
        )
        return await self._edit(name, edit, arguments)

    async def _insert(self, name: str, arguments: JsonObject) -> ToolResult:
        after: int = arguments["insert_line"] if "insert_line" in arguments else _raise_missing("insert_line")
        given = arguments.get("insert_text", arguments.get("new_str"))
        text: str = given if given is not None else _raise_missing("insert_text")
        page = await self.pages.open(name)
        shown = self._find_view(page)
        known = str(page.text) if shown is None else shown.text
        return await self._edit(name, _build_insertion(known, after, text), arguments)

    async def _edit(self, name: str, edit: Edit, arguments: JsonObject) -> ToolResult:
        if not self.pages.is_writable(name):
            raise ToolError(f"`{name}` may only be read", code="write_denied")
        page = await self._open_owned(name)
        run = secrets.token_hex(4)
        reason = str(arguments.get("description", ""))
        if self.mode == "auto":
            await page.disk.save()  # so that the edit is a write of its own
        shown = self._find_view(page)
        # What stands only in the present text the agent has not read there: it wrote it, or was told of it.
        is_newer = shown is not None and edit.search not in shown.text and edit.search in str(page.text)
        meant = None if is_newer else shown
        try:
            made = page.suggestions.propose_each(edit, run=run, by=self.by, reason=reason, shown=meant)
        except EditError as error:
            told = render_for_model(error.failures, words=_WORDS)
            raise ToolError(told, code=error.failures[0].code) from error
        except PlaceChanged as error:
            hint = "view the page again, and edit what stands there now"
            raise ToolError(error.message, hint=hint, code=error.code) from error
        if self.mode == "auto":
            _accept(page, made, shown)
        return self._to_result(page, made)

    def _to_result(self, page: OpenDocument, made: Sequence[Suggestion]) -> ToolResult:
        ids = [each.id for each in made]
        details: JsonObject = {"id": ids[0], **({"ids": ids} if len(ids) > 1 else {})}
        if self.mode == "auto":
            return ToolResult(text=f"Edited `{page.name}` at {_format_lines(made)}", details=details)
        return ToolResult(
            text=f"Suggested for `{page.name}` at {_format_lines(made)}, as {', '.join(ids)}: "
            "a person decides. The text is unchanged until then.",
            details=details,
        )


def _accept(page: OpenDocument, made: Sequence[Suggestion], shown: TextSnapshot | None) -> None:
    """Put an agent's edit into the text; the agent knows the page with it from now on."""
    length = len(str(page.text))
    own = ChangeSet.of(length, (change for each in made for change in compute_changes(each)))
    since = shown.changes if shown is not None else None
    page.suggestions.accept_all([each.id for each in made])
    if shown is not None and since is not None:
        shown.include(own, since, str(page.text))


def _format_threads(page: OpenDocument) -> str:
    threads = page.comments.list_threads()
    return "\n\n".join(_format_thread(page, each) for each in threads) or "there are no comments"


def _format_thread(page: OpenDocument, thread: CommentThread) -> str:
    line = (
        "its passage is gone"
        if thread.is_detached
        else f"line {get_line_number(str(page.text), thread.span.start)}"
    )
    state = f"resolved by {thread.resolved_by}" if thread.resolved_by else "open"
    said = [f"  {each.by}: {_indent(each.text)}" for each in thread.comments]
    return "\n".join([f"{thread.id}  {line}  {state}  on: {_indent(thread.words)}", *said])


def _indent(text: str) -> str:
    """Return a text whose further lines cannot be taken for somebody else's."""
    return "\n    ".join(text.splitlines())


def _format_lines(made: Sequence[Suggestion]) -> str:
    return f"line{'s' * (len(made) > 1)} {', '.join(str(each.line) for each in made)}"


def _build_insertion(text: str, after: int, inserted: str) -> Edit:
    """Return the edit that puts whole lines after a line; it names lines around that are not blank."""
    lines = split_lines(text)
    if after > len(lines):
        raise ToolError(
            f"the page has {len(lines)} lines, there is no line {after} to insert after",
            hint=f"`insert_line` goes from 0 to {len(lines)}",
            code="line_out_of_range",
        )
    first, last = max(after - 1, 0), min(after + 1, len(lines))
    while first > 0 and not "".join(lines[first:last]).strip():
        first -= 1
    while last < len(lines) and not "".join(lines[first:last]).strip():
        last += 1
    before, behind = "".join(lines[first:after]), "".join(lines[after:last])
    new = inserted if inserted.endswith("\n") else f"{inserted}\n"
    if before and not before.endswith("\n"):
        new = f"\n{new[:-1]}"
    return Edit(search=before + behind, replace=before + new + behind, line=first + 1)


def _get_text(arguments: JsonObject) -> str:
    text = _get_required(arguments, "text").strip()
    if not text:
        raise ToolError("`text` is blank", hint="say something")
    return text


def _get_required(arguments: JsonObject, name: str) -> str:
    return arguments[name] if name in arguments else _raise_missing(name)


def _raise_missing(name: str) -> NoReturn:
    raise ToolError(f"`{name}` is missing", hint=f"this command needs `{name}`")

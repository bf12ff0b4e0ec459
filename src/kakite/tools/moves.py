"""The file tools that move and remove whole files: ``move_file``, ``delete_file``."""

from __future__ import annotations

from kakite.edit import Change, ChangeSet, SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.changed import check_removal
from kakite.tools.edits import Plan
from kakite.tools.file_tools import PREVIEW, as_list, fixed_texts, one_or_more, parameters, writing_tool
from kakite.tools.listing import named
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope, is_binary
from kakite.tools.snippets import shown_change
from kakite.tools.toolset import JsonObject, Tool
from kakite.workspace import File, WorkspaceError, Writing

NAMES_TOLD = 20

MOVE_FILE = Tool(
    name="move_file",
    title="Move a file",
    description="Move or rename a file; refused if the destination exists. undo_edit takes it back.",
    parameters=parameters(
        {"source": {"type": "string"}, "destination": {"type": "string"}, "preview": PREVIEW},
        "source",
        "destination",
    ),
    effect="write",
)

DELETE_FILE = Tool(
    name="delete_file",
    title="Delete files",
    description="Delete one file or several, all or none; no folders. undo_edit brings one back.",
    parameters=parameters({"path": one_or_more("string"), "preview": PREVIEW}, "path"),
    effect="write",
)


def moving_tools(scope: Scope, run: str) -> list[Offer]:
    """Return the tools, working in this scope."""
    return [writing_tool(MOVE_FILE, scope, run, _move), writing_tool(DELETE_FILE, scope, run, _delete)]


def _move(scope: Scope, arguments: JsonObject) -> Plan:
    source: str = arguments["source"]
    destination: str = arguments["destination"]
    present = _present(scope, source)
    if scope.identity(source) == scope.identity(destination):
        raise ToolError(f"`{source}` is there already", hint="nothing was done; give another destination")
    _require_free(scope, destination)
    mode = scope.mode(source)
    writings = (
        Writing(path=source, data=None, expected=present.version, before=present.data),
        Writing(path=destination, data=present.data, expected=None, mode=mode, version=present.version),
    )
    diff = f"diff --git a/{source} b/{destination}\nrename from {source}\nrename to {destination}\n"
    return Plan(told=f"Successfully moved {source} to {destination}", writings=writings, diff=diff)


def _require_free(scope: Scope, destination: str) -> None:
    hint = "nothing was moved; take another name"
    try:
        taken = scope.find(destination) is not None
    except WorkspaceError as error:
        if error.code == "is_a_directory":
            error.hint = "give the name that the file is to have in it"
        raise
    if taken or destination.endswith("/"):
        what = "exists already" if taken else "names a folder"
        raise ToolError(f"`{destination}` {what}", hint=hint, code="file_exists" if taken else "bad_path")


def _delete(scope: Scope, arguments: JsonObject) -> Plan:
    paths: dict[str, str] = {scope.identity(path): path for path in as_list(arguments["path"])}
    found = {path: _present(scope, path) for path in paths.values()}
    for path, file in found.items():
        check_removal(scope, path, file)
    writings = tuple(
        Writing(path=path, data=None, expected=file.version, before=file.data) for path, file in found.items()
    )
    told = f"{len(found)} files: {named(list(found), NAMES_TOLD)}" if len(found) > 1 else next(iter(found))
    diff = "".join(_deletion(path, file) for path, file in found.items())
    return Plan(told=f"Successfully deleted {told}", writings=writings, diff=diff)


def _present(scope: Scope, path: str) -> File:
    """Return the file of this name, which must be a file itself: what a link leads to is not meant by it."""
    with fixed_texts("File"):
        present = scope.read(path)
    if scope.is_link(path):
        raise ToolError(
            f"`{path}` is a link to `{present.path}`",
            hint="nothing was done; name the file itself, or use `run_command` for the link if it is offered",
            code="not_a_file",
        )
    return present


def _deletion(path: str, file: File) -> str:
    """Return the diff of the removal of a file; of a binary one, or an empty one, what git says of it."""
    head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n"
    if is_binary(file.data):
        return f"{head}Binary files a/{path} and /dev/null differ\n"
    text = SourceText.from_bytes(file.data).text
    removal = ChangeSet.of(len(text), [Change(0, len(text), "")])
    return head + shown_change(removal, text, path).replace(f"+++ b/{path}\n", "+++ /dev/null\n", 1)

"""What ``kakite serve`` does, and the short way to it: a server starts with every session of a client.

The command line library is slow to load, so plain arguments are read here; whatever is not plain, also all
that is wrong, is left to it. That both read alike is a law in the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING

from kakite.errors import OutsideError

if TYPE_CHECKING:
    from kakite.serve import McpServer
    from kakite.tools import AfterEdit, Offers
    from kakite.tools.program_places import ProgramPlaces
    from kakite.workspace import History, Workspace


class ConfinementError(OutsideError):
    """The kernel was to confine the server and cannot.

    Code: ``landlock_missing``.
    """

    code = "landlock_missing"


TOOLS = "editor,files"
EDITOR_NAME = "text_editor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What to serve, and how. Each field is the option of its name."""

    root: tuple[str, ...]
    tools: str = TOOLS
    http: str | None = None
    read_only: bool = False
    editor_name: str = EDITOR_NAME
    split_editor: bool = False
    require_read: bool = False
    edit_format: str = "auto"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    resources: bool = False
    landlock: bool | None = None
    """None: when it gets in nobody's way."""
    print_config: str | None = None


_REPEATED = frozenset({"root", "allow", "deny", "ask", "deny_write", "allow_write"})
_FLAGS: Mapping[str, tuple[str, bool]] = {
    "--read-only": ("read_only", True),
    "--split-editor": ("split_editor", True),
    "--require-read": ("require_read", True),
    "--resources": ("resources", True),
    "--landlock": ("landlock", True),
    "--no-landlock": ("landlock", False),
}
_SWITCHED = {name for name, _ in _FLAGS.values()}
_VALUES = {
    "--" + field.name.replace("_", "-"): field.name
    for field in fields(Serving)
    if field.name not in _SWITCHED
}
_NEEDED = {field.name for field in fields(Serving) if field.default is MISSING}


def plain_serving(arguments: Sequence[str]) -> Serving | None:
    """Return what plain arguments ask for, None if they are not plain or not right."""
    values: dict[str, object] = {}
    repeated: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            field, switched = _FLAGS[word]
            values[field] = switched
            continue
        taken = value if equals else next(words, "-")
        if name not in _VALUES or (not equals and taken.startswith("-")):
            return None
        field = _VALUES[name]
        if field in _REPEATED:
            repeated.setdefault(field, []).append(taken)
        else:
            values[field] = taken
    values.update({field: tuple(given) for field, given in repeated.items()})
    return Serving(**values) if values.keys() >= _NEEDED else None  # pyright: ignore[reportArgumentType] - by the fields' own names


def main() -> None:
    """Run ``kakite serve`` with the arguments of this process and exit, like ``kakite.cli.app.main``."""
    serving = plain_serving(sys.argv[2:])
    if serving is None:
        from kakite.cli.app import main as with_its_library

        with_its_library()
        return
    from kakite.cli.ending import guarded

    guarded(lambda: serve(serving))


def serve(serving: Serving) -> None:
    """Serve until the client leaves or a signal comes.

    Raises:
        UsageError: there is no such set of tools, client, address or folder, or a name is no tool's.
    """
    if serving.print_config is not None:
        _print_config(serving.print_config, serving)
        return
    import gc

    gc.disable()  # half a million objects that stay are about to be made
    try:
        run = _prepared(serving)
    finally:
        gc.enable()
        gc.freeze()
    run()


def _print_config(client: str, serving: Serving) -> None:
    from kakite.cli.client_setup import client_setup

    _toolset(
        serving, _opened(serving), _after_edit(serving)
    )  # what would not start is not worth telling a client
    setup = client_setup(client, serving)
    sys.stderr.write(f"for {setup.file}\n" + (f"or run: {setup.command}\n" if setup.command else ""))
    sys.stdout.write(setup.text)


def _prepared(serving: Serving) -> Callable[[], None]:
    """Load and open all that the server needs, and return what runs it."""
    import asyncio

    from kakite.cli.kept_days import kept_days
    from kakite.serve.server import build_server
    from kakite.workspace import open_history, state_folder

    state = state_folder(os.environ)
    root = os.path.realpath(serving.root[0])
    workspace = _opened(serving, open_history(state, root, days=kept_days(os.environ)))
    after_edit = _after_edit(serving)
    toolset = _toolset(serving, workspace, after_edit)
    names = _sets(serving)
    if serving.deny and not serving.allow:
        sys.stderr.write("--deny stops only the plain forms of a command; --allow confines\n")
    if serving.landlock or (serving.landlock is None and serving.http is None and "shell" not in names):
        _confine([*workspace.roots, str(state)], after_edit, asked=serving.landlock is not None)
    server = build_server(toolset)
    if serving.resources:
        from kakite.serve.resources import add_files

        add_files(server, workspace)
    if serving.http is not None:
        return _listening(server, serving.http, runs_commands="shell" in names)
    from kakite.serve.stdio import serve_stdio

    if sys.stdin.isatty():
        sys.stderr.write(_WAITING)
    return lambda: asyncio.run(serve_stdio(server))


_WAITING = (
    "waiting for an MCP client on standard input, which is your terminal; Ctrl-C ends it\n"
    "`--print-config CLIENT` shows how a client is told of it; `--http 127.0.0.1:8811` listens instead\n"
)


def _sets(serving: Serving) -> list[str]:
    return [name.strip() for name in serving.tools.split(",")]


def _opened(serving: Serving, history: History | None = None) -> Workspace:
    from kakite.errors import UsageError
    from kakite.workspace import Workspace, WorkspaceError, names_denied

    denied = names_denied(besides=serving.deny_write, without=serving.allow_write)
    try:
        return Workspace(serving.root, denied=denied, history=history)
    except WorkspaceError as error:
        hint = "give a folder that is there and that you may read"
        raise UsageError(f"--root: {error.message}", hint=hint, code=error.code) from error


def _after_edit(serving: Serving) -> tuple[AfterEdit, ...]:
    from kakite.cli.edit_commands import own_edit_commands

    return own_edit_commands(os.environ, serving.root[0])


def _toolset(serving: Serving, workspace: Workspace, after_edit: Sequence[AfterEdit]) -> Offers:
    from kakite.tools import CommandRules, EditorOptions, open_toolset
    from kakite.tools.edit_formats import chosen_format

    return open_toolset(
        workspace,
        _sets(serving),
        editor=EditorOptions(
            name=serving.editor_name,
            split=serving.split_editor,
            format=chosen_format(serving.edit_format),
            require_read=serving.require_read,
        ),
        read_only=serving.read_only,
        commands=CommandRules(allow=serving.allow, deny=serving.deny, ask=serving.ask),
        after_edit=after_edit,
    )


def _confine(folders: Sequence[str], after_edit: Sequence[AfterEdit], *, asked: bool) -> None:
    from kakite.tools import find_ripgrep
    from kakite.workspace.landlock import confine

    ripgrep = find_ripgrep(os.environ, folders)
    needed = _needed_after_edit(after_edit, folders)
    read = [os.path.realpath(ripgrep)] if ripgrep else []
    read += [place for each in needed for place in each.readable]
    try:
        confinement = confine(write=folders, read=read)
        achieved, told = confinement.is_achieved, confinement.told
    except OSError as error:
        achieved, told = False, f"the kernel refused: {error.strerror}"
    if asked and not achieved:
        raise ConfinementError(f"the server cannot be confined: {told}", hint="serve without --landlock")
    if asked:
        sys.stderr.write(f"confined to {', '.join(folders)} {told}\n")
    if achieved and needed:
        sys.stderr.write(_told_after_edit(needed))


def _needed_after_edit(after_edit: Sequence[AfterEdit], folders: Sequence[str]) -> list[ProgramPlaces]:
    """Return what the person's commands need; nothing is loaded where there are none."""
    if not after_edit:
        return []
    from kakite.tools.program_places import places_of

    return [places_of(argv, os.environ, folders) for argv in dict.fromkeys(each.argv for each in after_edit)]


def _told_after_edit(needed: Sequence[ProgramPlaces]) -> str:
    """Return what is told of the commands once the kernel confines them: which of them cannot run, too."""
    lines = [
        "commands of after_edit are confined by the kernel (Landlock): of your home they read what their "
        "programs run by; --no-landlock lets them read everything\n"
    ]
    for each in needed:
        shut = [file for file in each.files if not _may_be_read(file)]
        if not each.files:
            lines.append(f"after_edit: `{each.command[0]}` is not there\n")
        elif shut:
            lines.append(
                f"after_edit: Landlock keeps `{each.command[0]}` from `{shut[0]}`; --no-landlock lets it\n"
            )
    return "".join(dict.fromkeys(lines))


def _may_be_read(file: str) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def token_of(environ: Mapping[str, str]) -> str:
    """Return the token that clients of a server must bring; empty if none was given.

    Raises:
        UsageError: no header could carry it.
    """
    return header_token("KAKITE_TOKEN", environ)


def header_token(variable: str, environ: Mapping[str, str]) -> str:
    """Return the token that this variable holds, empty if none.

    Raises:
        UsageError: no header could carry it.
    """
    from kakite.errors import UsageError

    token = environ.get(variable, "")
    if token != token.strip() or not (token.isascii() and token.isprintable()):
        hint = "use ASCII letters, digits and signs, without blanks around: no client can send another"
        raise UsageError(f"{variable} holds what no header can carry", hint=hint)
    return token


def _listening(server: McpServer, at: str, *, runs_commands: bool) -> Callable[[], None]:
    import asyncio
    import secrets

    from kakite.serve.gate import Gate, is_loopback
    from kakite.serve.web import listen, parse_address, serve_http, url_of

    address = parse_address(at)
    token = token_of(os.environ)
    listening = listen(address)
    if not token and (runs_commands or not is_loopback(address.host)):
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"clients must send the header  Authorization: Bearer {token}\n")
    sys.stdout.write(url_of(listening) + "\n")
    sys.stdout.flush()
    return lambda: asyncio.run(serve_http(server, listening, Gate(host=address.host, token=token)))

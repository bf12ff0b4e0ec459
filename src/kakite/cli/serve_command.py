"""Implements ``kakite serve``. A server starts with every session of a client, so it imports little."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kakite.errors import ExternalError

if TYPE_CHECKING:
    import socket

    from kakite.cli.serve_options import ServeOptions
    from kakite.http.security import TransportSecurity
    from kakite.serve import McpServer
    from kakite.tools import AfterEditCommand, FunctionToolset
    from kakite.tools.command_access import CommandAccess
    from kakite.workspace import EditLog, Workspace


class ConfinementError(ExternalError):
    """The kernel was to confine the server and cannot.

    Code: ``landlock_missing``.
    """

    code = "landlock_missing"


def main(options: ServeOptions) -> None:
    """Run ``kakite serve`` and exit, like ``kakite.cli.app.main``."""
    from kakite.cli.exit_codes import run_guarded

    run_guarded(lambda: serve(options))


def serve(options: ServeOptions) -> None:
    """Serve until the client leaves or a signal comes.

    Raises:
        UsageError: there is no such set of tools, client, address or folder, or a name is no tool's.
    """
    if options.print_config is not None:
        _print_config(options.print_config, options)
        return
    import gc

    gc.disable()  # half a million objects that stay are about to be made
    try:
        run = _prepare(options)
    finally:
        gc.enable()
        gc.freeze()
    run()


def _print_config(client: str, options: ServeOptions) -> None:
    from kakite.cli.client_setup import build_client_setup

    _check_options(options)
    _open_toolset(
        options,
        _open_folders(options, options.root, None) if options.root else None,
        _load_after_edit(options),
    )  # what would not start is not worth telling a client
    setup = build_client_setup(client, options)
    sys.stderr.write(
        f"put this into {setup.file}\n" + (f"or run: {setup.command}\n" if setup.command else "")
    )
    sys.stdout.write(setup.text)


def _prepare(options: ServeOptions) -> Callable[[], None]:
    """Load and open all that the server needs, and return what runs it."""
    import asyncio

    from kakite.processes.supervisor import clear_dumpable
    from kakite.serve.server import build_server
    from kakite.workspace import ensure_state_folder

    _check_options(options)
    open_logged = _prepare_workspace(options)
    workspace = open_logged(options.root) if options.root else None
    after_edit = _load_after_edit(options)
    toolset = _open_toolset(options, workspace, after_edit)
    names = _split_tool_sets(options)
    if options.deny and not options.allow:
        sys.stderr.write("--deny stops only the plain forms of a command; --allow confines\n")
    if workspace is not None and _is_to_be_confined(options, names):
        state = str(ensure_state_folder(os.environ))
        _confine([*workspace.roots, state], after_edit, asked=options.landlock is not None)
    if "shell" in names:
        clear_dumpable()  # a command must not answer in our place
    server = build_server(toolset)
    _add_offers(server, options, workspace, open_logged)
    if options.http is not None:
        return _listen(server, options.http, runs_commands="shell" in names)
    from kakite.serve.stdio import serve_stdio

    if sys.stdin.isatty():
        sys.stderr.write(_WAITING + ("" if options.root else _NO_ROOT))
    return lambda: asyncio.run(serve_stdio(server))


def _add_offers(
    server: McpServer,
    options: ServeOptions,
    workspace: Workspace | None,
    open_logged: Callable[[Sequence[str]], Workspace],
) -> None:
    """Offer what there is beside the tools; without folders of its own, all work in the client's."""
    if options.resources:
        from kakite.serve.resources import add_files

        add_files(server, workspace)
    edits = _has_tools_of_skill(options)
    if edits or options.resources:
        from kakite.serve.completions import add_completions
        from kakite.serve.edit_prompts import EDIT_PROMPTS
        from kakite.serve.resources import TEMPLATE

        add_completions(
            server,
            workspace,
            prompts=EDIT_PROMPTS if edits else (),
            templates=(TEMPLATE,) if options.resources else (),
        )
    if workspace is None:
        from kakite.serve.client_roots import add_client_roots

        add_client_roots(server, open_logged)
    if edits:
        from kakite.serve.edit_prompts import EDIT_PROMPTS
        from kakite.serve.server import add_prompts
        from kakite.serve.skills import add_skill

        add_skill(server, "kakite", _load_skill)
        add_prompts(server, EDIT_PROMPTS)
    if not options.read_only and {"editor", "files"} & set(_split_tool_sets(options)):
        from kakite.serve.edit_app import add_edit_app

        add_edit_app(server)
    from kakite.serve.call_logs import add_logging

    add_logging(server)


_WAITING = (
    "waiting for an MCP client on standard input, which is your terminal; end with Ctrl-C\n"
    "`--print-config CLIENT` shows how to add it to a client; `--http 127.0.0.1:8811` listens instead\n"
)


_NO_ROOT = "without --root DIR, the folders are those that the client names\n"


def _has_tools_of_skill(options: ServeOptions) -> bool:
    """Tell whether the tools that the skill names are there, under these names and with these arguments."""
    from kakite.cli.serve_options import EDITOR_NAME

    named = options.editor_name == EDITOR_NAME and options.edit_format in {"auto", "quote"}
    whole = not (options.read_only or options.split_editor)
    return named and whole and {"editor", "files"} <= set(_split_tool_sets(options))


def _load_skill() -> str:
    from kakite.cli.install.clients import load_skill

    return load_skill()


def _split_tool_sets(options: ServeOptions) -> list[str]:
    return [name.strip() for name in options.tools.split(",")]


def _check_options(options: ServeOptions) -> None:
    """Raise if the server needs to be told its folders and is not."""
    from kakite.errors import UsageError

    if options.root:
        return
    hint = "name the folders: --root DIR"
    if options.http is not None:
        raise UsageError("over HTTP no client says which folders the server may use", hint=hint)
    if options.landlock:
        raise UsageError("the kernel confines the server before a client can name its folders", hint=hint)


def _is_to_be_confined(options: ServeOptions, names: Sequence[str]) -> bool:
    return options.landlock or (options.landlock is None and options.http is None and "shell" not in names)


def _prepare_workspace(options: ServeOptions) -> Callable[[Sequence[str]], Workspace]:
    """Return what opens folders as the options say, with the journal of the first one."""
    from kakite.cli.light_settings import load_history_days
    from kakite.workspace import ensure_state_folder, open_edit_log

    state, days = ensure_state_folder(os.environ), load_history_days(os.environ)

    def open_logged(folders: Sequence[str]) -> Workspace:
        history = open_edit_log(state, os.path.realpath(folders[0]), days=days)
        return _open_folders(options, folders, history)

    return open_logged


def _open_folders(options: ServeOptions, folders: Sequence[str], history: EditLog | None) -> Workspace:
    from kakite.errors import UsageError
    from kakite.workspace import Workspace, WorkspaceError, build_denylist

    denied = build_denylist(besides=options.deny_write, without=options.allow_write)
    # Commands of a task may run in a container, where the folder has another path.
    alias = os.environ.get("KAKITE_ROOT_ALIAS", "") if options.root else ""
    try:
        return Workspace(folders, denied=denied, history=history, alias=alias)
    except WorkspaceError as error:
        hint = "give an existing folder that you may read"
        raise UsageError(f"--root: {error.message}", hint=hint, code=error.code) from error


def _load_after_edit(options: ServeOptions) -> tuple[AfterEditCommand, ...]:
    from kakite.cli.light_settings import load_after_edit_commands

    return load_after_edit_commands(os.environ, options.root[0] if options.root else "")


def _open_toolset(
    options: ServeOptions, workspace: Workspace | None, after_edit: Sequence[AfterEditCommand]
) -> FunctionToolset:
    from kakite.tools import CommandRules, EditorOptions, open_toolset
    from kakite.tools.editor.edit_formats import resolve_format

    return open_toolset(
        workspace,
        _split_tool_sets(options),
        editor=EditorOptions(
            name=options.editor_name,
            split=options.split_editor,
            format=resolve_format(options.edit_format),
            require_read=options.require_read,
        ),
        read_only=options.read_only,
        commands=CommandRules(allow=options.allow, deny=options.deny, ask=options.ask),
        after_edit=after_edit,
    )


def _confine(folders: Sequence[str], after_edit: Sequence[AfterEditCommand], *, asked: bool) -> None:
    from kakite.tools import find_ripgrep
    from kakite.workspace.landlock import confine

    ripgrep = find_ripgrep(os.environ, folders)
    needed = _find_program_places(after_edit, folders)
    read = [os.path.realpath(ripgrep)] if ripgrep else []
    read += [place for each in needed for place in each.readable]
    try:
        confinement = confine(write=folders, read=read)
        achieved, told = confinement.is_achieved, confinement.told
    except OSError as error:
        achieved, told = False, f"the kernel refused: {error.strerror}"
    if asked and not achieved:
        raise ConfinementError(
            f"the kernel cannot confine the server: {told}", hint="serve without --landlock"
        )
    if asked:
        sys.stderr.write(f"confined to {', '.join(folders)} {told}\n")
    if achieved and needed:
        sys.stderr.write(_format_confinement(needed))


def _find_program_places(
    after_edit: Sequence[AfterEditCommand], folders: Sequence[str]
) -> list[CommandAccess]:
    """Return what the person's commands need; nothing is loaded where there are none."""
    if not after_edit:
        return []
    from kakite.tools.command_access import find_command_access

    return [
        find_command_access(argv, os.environ, folders)
        for argv in dict.fromkeys(each.argv for each in after_edit)
    ]


def _format_confinement(needed: Sequence[CommandAccess]) -> str:
    """Return what is told of the commands once the kernel confines them: which of them cannot run, too."""
    lines = [
        "the kernel (Landlock) confines the commands of after_edit: in your home they can read only what "
        "their programs need; --no-landlock lets them read everything\n"
    ]
    for each in needed:
        shut = [file for file in each.files if not _can_read(file)]
        if not each.files:
            lines.append(f"after_edit: `{each.command[0]}` is not there\n")
        elif shut:
            lines.append(
                f"after_edit: Landlock keeps `{each.command[0]}` from `{shut[0]}`; --no-landlock lets it\n"
            )
    return "".join(dict.fromkeys(lines))


def _can_read(file: str) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def load_token(environ: Mapping[str, str]) -> str:
    """Return the token that clients of a server must bring; empty if none was given.

    Raises:
        UsageError: no header could carry it.
    """
    return load_header_token("KAKITE_TOKEN", environ)


def load_header_token(variable: str, environ: Mapping[str, str]) -> str:
    """Return the token that this variable holds, empty if none.

    Raises:
        UsageError: no header could carry it.
    """
    from kakite.errors import UsageError

    token = environ.get(variable, "")
    if token != token.strip() or not (token.isascii() and token.isprintable()):
        hint = (
            "use ASCII letters, digits and signs, without spaces around them: clients can send nothing else"
        )
        raise UsageError(f"{variable} has characters that a header cannot carry", hint=hint)
    return token


def _listen(server: McpServer, at: str, *, runs_commands: bool) -> Callable[[], None]:
    import asyncio

    from kakite.serve.streamable_http import serve_http

    listening, gate = open_listener(at, runs_commands=runs_commands)
    return lambda: asyncio.run(serve_http(server, listening, gate))


def open_listener(at: str, *, runs_commands: bool) -> tuple[socket.socket, TransportSecurity]:
    """Listen there, print the address, and return the socket and who is let in.

    ``runs_commands``: clients must bring a token also on the loopback.

    Raises:
        UsageError: it is no address, or the token is none.
        ListenError: it cannot be listened on.
    """
    import secrets

    from kakite.http.security import TransportSecurity, is_loopback
    from kakite.serve.streamable_http import get_url, listen, parse_address

    address = parse_address(at)
    token = load_token(os.environ)
    listening = listen(address)
    if not token and (runs_commands or not is_loopback(address.host)):
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"clients must send the header  Authorization: Bearer {token}\n")
    sys.stdout.write(get_url(listening) + "\n")
    sys.stdout.flush()
    return listening, TransportSecurity(host=address.host, token=token)

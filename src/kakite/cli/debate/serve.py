"""``kakite debate serve``: debates for any MCP client, over standard input and output or HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kakite.cli.options import Asks, Minutes, Mode, Order, Participants, Tokens
from kakite.errors import UsageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from kakite.cli.client_setup import ClientSetup
    from kakite.debate.mcp.tools import TranscriptWriter
    from kakite.debate.participants.base import Participant
    from kakite.debate.store import SqliteDebateStore
    from kakite.http.security import TransportSecurity
    from kakite.serve.server import Prompt
    from kakite.serve.streamable_http import BindAddress

NAME = "debate"
"""What clients are told to call the server."""
DEFAULT_ADDRESS = "127.0.0.1:8080"
GENERIC_CLIENT = "mcp.json"
"""The form of a description of the server that is for no client in particular."""

Where = Annotated[
    str,
    typer.Argument(
        metavar="[HOST:PORT]",
        help=f"With --http: listen on this address. Default: {DEFAULT_ADDRESS}.",
        show_default=False,
    ),
]
Http = Annotated[
    bool, typer.Option("--http", help="Listen on the network instead of standard input and output.")
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Keep debates on disk, so that they survive the server's end. Default: keep nothing."
    ),
]
Transcript = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write each debate's transcript to DIR after each turn."),
]
Rounds = Annotated[
    int | None,
    typer.Option(min=1, max=10, help="Most rounds in one turn. Default: 2, or --cap if that is less."),
]
Cap = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10,
        help="Most rounds in one debate; steps do not count. Default: 4, or --rounds if that is more.",
    ),
]
Hold = Annotated[
    float,
    typer.Option(
        min=0,
        help="Seconds that start_debate and step wait for the turn to complete before they answer "
        "without it.",
    ),
]
Roots = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Let debates be about the files of this folder, or of one below it; may be repeated. "
        "Default: the sides read no files.",
    ),
]
AtOnce = Annotated[int, typer.Option(min=1, help="How many sides may work at once, in all debates together.")]
PrintConfig = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        help="Print how to add this server to claude-code, claude-desktop, codex, copilot, cursor, gemini, "
        f"opencode, pi, vscode or zed, and end; {GENERIC_CLIENT} describes the server for any client.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DebateServerOptions:
    """The options of the server."""

    http: BindAddress | None
    keep: bool
    participants: tuple[Participant, ...]
    terms: Mapping[str, object]
    hold: float
    at_once: int
    roots: tuple[Path, ...] = ()


def serve(
    where: Where = "",
    http: Http = False,
    keep: Keep = False,
    transcript: Transcript = None,
    participant: Participants = None,
    root: Roots = None,
    mode: Mode = "debate",
    order: Order = "parallel",
    rounds: Rounds = None,
    cap: Cap = None,
    budget_minutes: Minutes = None,
    budget_tokens: Tokens = None,
    budget_asks: Asks = None,
    hold: Hold = 5.0,
    at_once: AtOnce = 8,
    print_config: PrintConfig = None,
) -> None:
    """Serve debates to any MCP client: start_debate, step, wait, status, stop."""
    from kakite.debate.model import DebateLimits

    seconds = None if budget_minutes is None else budget_minutes * 60
    budget = DebateLimits(seconds=seconds, tokens=budget_tokens, asks=budget_asks)
    terms = {
        "mode": mode,
        "order": order,
        "rounds": rounds or min(2, cap or 2),
        "cap": cap or max(4, rounds or 4),
        "budget": budget,
    }
    participants = _load_participants(participant or (), terms)
    serving = _DebateServerOptions(
        http=_parse_listen_address(where, wanted=http),
        keep=keep,
        participants=participants,
        terms=terms,
        hold=hold,
        at_once=at_once,
        roots=_check_roots(root or ()),
    )
    if print_config is not None:
        _print_config(print_config, serving)
        return
    with ExitStack() as stack:
        kept = stack.enter_context(_open_store()) if keep else None
        publish = _make_publisher(transcript) if transcript else None
        door = _listen(serving.http) if serving.http else None
        asyncio.run(_serve(serving, kept, publish, door))


def _load_participants(names: Sequence[str], terms: Mapping[str, object]) -> tuple[Participant, ...]:
    """Return who argues, once a debate between them on these terms could begin."""
    from kakite.cli.debate.runner import load_participants
    from kakite.debate import rounds
    from kakite.debate.model import DebateConfig, DebateError

    try:
        participants = load_participants(names, os.environ)
        sides = tuple(each.side for each in participants)
        rounds.begin("?", DebateConfig(sides=sides, **terms))  # pyright: ignore[reportArgumentType] - its own names
    except DebateError as error:
        raise UsageError(error.message, hint=error.hint, code=error.code) from error
    return participants


def _check_roots(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders.

    Raises:
        UsageError: one of them is none.
    """
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"--root: `{root}` is no folder")
    return tuple(roots)


def _parse_listen_address(where: str, *, wanted: bool) -> BindAddress | None:
    from kakite.serve.streamable_http import parse_address

    if where and not wanted:
        raise UsageError(f"`{where}` is an address to listen on", hint=f"give --http {where}")
    return parse_address(where or DEFAULT_ADDRESS) if wanted else None


def _open_store() -> SqliteDebateStore:
    from kakite.debate.store import SqliteDebateStore, prepare_store_file

    return SqliteDebateStore(prepare_store_file(os.environ))


def _listen(address: BindAddress) -> tuple[socket.socket, TransportSecurity]:
    """Listen, and tell where, and what clients must send."""
    from kakite.cli.serve_command import load_token
    from kakite.http.security import TransportSecurity, is_loopback
    from kakite.serve.streamable_http import get_url, listen

    token = load_token(os.environ)
    listening = listen(address)
    if not token and not is_loopback(address.host):
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"clients must send the header  Authorization: Bearer {token}\n")
    sys.stdout.write(get_url(listening) + "\n")
    sys.stdout.flush()
    return listening, TransportSecurity(host=address.host, token=token)


async def _serve(
    serving: _DebateServerOptions,
    kept: SqliteDebateStore | None,
    publish: TranscriptWriter | None,
    door: tuple[socket.socket, TransportSecurity] | None,
) -> None:
    from kakite.debate.mcp.descriptions import build_judge_guide
    from kakite.debate.mcp.tools import DebateTools
    from kakite.debate.session import DebateManager
    from kakite.serve.server import add_prompts, build_server

    async with DebateManager(serving.participants, keeper=kept, at_once=serving.at_once) as bridge:
        tools = DebateTools(
            bridge,
            terms=serving.terms,
            hold=serving.hold,
            store=kept,
            publish=publish,
            roots=serving.roots,
        )
        server = build_server(
            tools, name="kakite-debate", title="Kakite debate", instructions=build_judge_guide()
        )
        add_prompts(server, [_build_judge_prompt()])
        try:
            if door:
                from kakite.serve.streamable_http import serve_http

                await serve_http(server, *door)
            else:
                from kakite.serve.stdio import serve_stdio

                await serve_stdio(server)
        finally:
            await tools.close()


def _build_judge_prompt() -> Prompt:
    from kakite.debate.mcp.descriptions import build_judge_guide
    from kakite.serve.server import Prompt

    return Prompt(
        name="judge",
        title="Let coding assistants debate",
        description="Start a debate and judge it for me",
        arguments={"topic": "The question to debate"},
        text=lambda given: build_judge_guide(given.get("topic", "")),
    )


def _make_publisher(folder: Path) -> TranscriptWriter:
    """Return what writes a session's transcript, each time to the same files."""
    from kakite.debate.model import Debate
    from kakite.debate.transcript.files import write_transcript

    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise UsageError(f"--transcript: Kakite cannot write to `{folder}`")
    written: dict[tuple[str, str, int], tuple[Path, Path, Path]] = {}

    def publish(session: str, debate: Debate) -> Path:
        about = (session, debate.prompt, debate.terms.seed)  # another debate of the session has its own
        written[about] = write_transcript(debate, folder, instead=written.get(about))
        return written[about][0]

    return publish


def _print_config(client: str, serving: _DebateServerOptions) -> None:
    setup = _build_setup(client, serving)
    if setup.file:
        sys.stderr.write(
            f"put this into {setup.file}\n" + (f"or run: {setup.command}\n" if setup.command else "")
        )
    sys.stdout.write(setup.text)


def _build_setup(client: str, serving: _DebateServerOptions) -> ClientSetup:
    from kakite.cli.client_setup import (
        ClientSetup,
        build_http_setup,
        build_stdio_setup,
        get_program_argv,
    )

    if client == GENERIC_CLIENT:
        return ClientSetup(text=_describe_tools(serving), file="")
    if serving.http is None:
        return build_stdio_setup(client, NAME, [*get_program_argv(), *_collect_arguments()])
    host = f"[{serving.http.host}]" if ":" in serving.http.host else serving.http.host
    token = "KAKITE_TOKEN" if os.environ.get("KAKITE_TOKEN") else ""
    return build_http_setup(client, NAME, f"http://{host}:{serving.http.port}/mcp", token=token)


_FOLDERS = ("--transcript", "--root")
"""Options that name a folder: the client starts the server elsewhere."""


def _collect_arguments() -> list[str]:
    """Return the arguments that we were given ourselves, but for the one that prints."""
    words = iter(sys.argv[1:])
    given: list[str] = []
    for word in words:
        if word == "--print-config":
            next(words, "")
        elif word in _FOLDERS:
            given += [word, str(Path(next(words, "")).absolute())]
        elif word.startswith(tuple(f"{name}=" for name in _FOLDERS)):
            name, _, folder = word.partition("=")
            given.append(f"{name}={Path(folder).absolute()}")
        elif not word.startswith("--print-config="):
            given.append(word)
    return given


def _describe_tools(serving: _DebateServerOptions) -> str:
    """Return the description of the server that the first design of debates has."""
    from kakite import __version__
    from kakite.debate.mcp.descriptions import build_tools

    cap = cast("int", serving.terms["cap"])
    told = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in build_tools(
            tuple(each.side.name for each in serving.participants), cap, has_roots=bool(serving.roots)
        )
    ]
    return json.dumps({"name": "ai_debate_bridge", "version": __version__, "tools": told}, indent=2) + "\n"

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

from kakite.cli.debate_flags import Asks, Minutes, Mode, Order, Sides, Tokens
from kakite.errors import UsageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from kakite.cli.client_setup import ClientSetup
    from kakite.debate.kept import Kept
    from kakite.debate.participants import Participant
    from kakite.debate.service import Publish
    from kakite.serve.gate import Gate
    from kakite.serve.web import Address

NAME = "debate"
"""What clients are told to call the server."""
AT = "127.0.0.1:8080"
SEEDS = "mcp.json"
"""The form of a description of the server that is for no client in particular."""

Where = Annotated[
    str,
    typer.Argument(
        metavar="[HOST:PORT]", help=f"With --http: listen there. Default: {AT}.", show_default=False
    ),
]
Http = Annotated[
    bool, typer.Option("--http", help="Listen on the network instead of standard input and output.")
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Keep debates on disk, so that they outlive the server. Without it nothing is."
    ),
]
Transcript = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the transcript of each debate there after each turn."),
]
Rounds = Annotated[
    int | None, typer.Option(min=1, max=10, help="Rounds of a turn, at most. Default: 2, or the cap if less.")
]
Cap = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10,
        help="Rounds of a debate, at most; steps do not count. Default: 4, or the rounds if more.",
    ),
]
Hold = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds in which start_debate and step answer with the turn if it is complete by then."
    ),
]
AtOnce = Annotated[int, typer.Option(min=1, help="Sides at work at once, of all debates together.")]
PrintConfig = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        help="Print how to add this server to claude-code, claude-desktop, codex, cursor, pi or vscode, and "
        f"end; {SEEDS} describes it for none in particular.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """What to serve, and how."""

    http: Address | None
    keep: bool
    participants: tuple[Participant, ...]
    terms: Mapping[str, object]
    hold: float
    at_once: int


def serve(
    where: Where = "",
    http: Http = False,
    keep: Keep = False,
    transcript: Transcript = None,
    participant: Sides = None,
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
    from kakite.debate.record import Budget

    seconds = None if budget_minutes is None else budget_minutes * 60
    budget = Budget(seconds=seconds, tokens=budget_tokens, asks=budget_asks)
    terms = {
        "mode": mode,
        "order": order,
        "rounds": rounds or min(2, cap or 2),
        "cap": cap or max(4, rounds or 4),
        "budget": budget,
    }
    participants = _participants(participant or (), terms)
    serving = _Serving(
        http=_address(where, wanted=http),
        keep=keep,
        participants=participants,
        terms=terms,
        hold=hold,
        at_once=at_once,
    )
    if print_config is not None:
        _print(print_config, serving)
        return
    with ExitStack() as stack:
        kept = stack.enter_context(_opened()) if keep else None
        publish = _publisher(transcript) if transcript else None
        door = _door(serving.http) if serving.http else None
        asyncio.run(_serve(serving, kept, publish, door))


def _participants(names: Sequence[str], terms: Mapping[str, object]) -> tuple[Participant, ...]:
    """Return who argues, once a debate between them on these terms could begin."""
    from kakite.cli.debating import sides_of
    from kakite.debate import protocol
    from kakite.debate.record import DebateError, Terms

    try:
        participants = sides_of(names, os.environ)
        sides = tuple(each.side for each in participants)
        protocol.begin("?", Terms(sides=sides, **terms))  # pyright: ignore[reportArgumentType] - its own names
    except DebateError as error:
        raise UsageError(error.message, hint=error.hint, code=error.code) from error
    return participants


def _address(where: str, *, wanted: bool) -> Address | None:
    from kakite.serve.web import parse_address

    if where and not wanted:
        raise UsageError(f"`{where}` says where to listen", hint=f"give --http {where}")
    return parse_address(where or AT) if wanted else None


def _opened() -> Kept:
    from kakite.debate.kept import Kept, kept_file

    return Kept(kept_file(os.environ))


def _door(address: Address) -> tuple[socket.socket, Gate]:
    """Listen, and tell where, and what clients must send."""
    from kakite.cli.serving import token_of
    from kakite.serve.gate import Gate, is_loopback
    from kakite.serve.web import listen, url_of

    token = token_of(os.environ)
    listening = listen(address)
    if not token and not is_loopback(address.host):
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"clients must send the header  Authorization: Bearer {token}\n")
    sys.stdout.write(url_of(listening) + "\n")
    sys.stdout.flush()
    return listening, Gate(host=address.host, token=token)


async def _serve(
    serving: _Serving, kept: Kept | None, publish: Publish | None, door: tuple[socket.socket, Gate] | None
) -> None:
    from kakite.debate.bridge import Bridge
    from kakite.debate.service import DebateTools
    from kakite.debate.tool_texts import judge_guide
    from kakite.serve.prompts import Prompt, add_prompts
    from kakite.serve.server import build_server

    async with Bridge(serving.participants, keeper=kept, at_once=serving.at_once) as bridge:
        tools = DebateTools(bridge, terms=serving.terms, hold=serving.hold, store=kept, publish=publish)
        server = build_server(tools, name="kakite-debate", title="Kakite debate", instructions=judge_guide())
        judge = Prompt(
            name="judge",
            title="Let coding assistants debate",
            description="Start a debate and judge it for me",
            arguments={"topic": "The question that they are to debate"},
            text=lambda given: judge_guide(given.get("topic", "")),
        )
        add_prompts(server, [judge])
        try:
            if door:
                from kakite.serve.web import serve_http

                await serve_http(server, *door)
            else:
                from kakite.serve.stdio import serve_stdio

                await serve_stdio(server)
        finally:
            await tools.close()


def _publisher(folder: Path) -> Publish:
    """Return what writes a session's transcript, each time to the same files."""
    from kakite.debate.record import Debate
    from kakite.debate.transcript import write

    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise UsageError(f"--transcript: nothing can be written to `{folder}`")
    written: dict[tuple[str, str, int], tuple[Path, Path, Path]] = {}

    def publish(session: str, debate: Debate) -> Path:
        about = (session, debate.prompt, debate.terms.seed)  # another debate of the session has its own
        written[about] = write(debate, folder, instead=written.get(about))
        return written[about][0]

    return publish


def _print(client: str, serving: _Serving) -> None:
    setup = _setup(client, serving)
    if setup.file:
        sys.stderr.write(f"for {setup.file}\n" + (f"or run: {setup.command}\n" if setup.command else ""))
    sys.stdout.write(setup.text)


def _setup(client: str, serving: _Serving) -> ClientSetup:
    from kakite.cli.client_setup import ClientSetup, address_of, program, setup_of

    if client == SEEDS:
        return ClientSetup(text=_described(serving), file="")
    if serving.http is None:
        return setup_of(client, NAME, [*program(), *_given()])
    host = f"[{serving.http.host}]" if ":" in serving.http.host else serving.http.host
    token = "KAKITE_TOKEN" if os.environ.get("KAKITE_TOKEN") else ""
    return address_of(client, NAME, f"http://{host}:{serving.http.port}/mcp", token=token)


def _given() -> list[str]:
    """Return the arguments that we were given ourselves, but for the one that prints."""
    words = iter(sys.argv[1:])
    given: list[str] = []
    for word in words:
        if word == "--print-config":
            next(words, "")
        elif word == "--transcript":
            given += [word, str(Path(next(words, "")).absolute())]
        elif word.startswith("--transcript="):
            given.append(f"--transcript={Path(word.partition('=')[2]).absolute()}")
        elif not word.startswith("--print-config="):
            given.append(word)
    return given


def _described(serving: _Serving) -> str:
    """Return the description of the server that the first design of debates has."""
    from kakite import __version__
    from kakite.debate.tool_texts import tools

    cap = cast("int", serving.terms["cap"])
    told = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in tools(tuple(each.side.name for each in serving.participants), cap)
    ]
    return json.dumps({"name": "ai_debate_bridge", "version": __version__, "tools": told}, indent=2) + "\n"

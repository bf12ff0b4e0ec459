"""``kakite collab``: pages of a folder that people and an assistant write together."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kakite.cli.listening import ADDRESS, Http
from kakite.cli.screen import visible_name
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.cli.settings import Settings
    from kakite.collab.assistant import Assistant
    from kakite.collab.gate import Door
    from kakite.collab.pages import Pages
    from kakite.collab.relay import Relay
    from kakite.collab.signin import Issuer
    from kakite.workspace import Workspace

_NEEDED = ("fastapi", "pycrdt", "websockets")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder whose texts are the pages.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Let nobody write.")]
Origin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL", help="An address that people reach the pages by, through a proxy; may be repeated."
    ),
]


Mcp = Annotated[
    Literal["review", "auto"],
    typer.Option(
        "--mcp", help="What becomes of edits over MCP: suggestions to review, or in the text at once."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER:NAME", help="The assistant's language model. Without one people write alone."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of an API that speaks the provider's format.")
]
Redis = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Serve the same pages as other processes, through this Redis: redis://HOST:PORT/N.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where other processes reach this one. Default: where it listens."),
]


def collab(
    folder: Folder,
    http: Http = ADDRESS,
    model: Model = None,
    base_url: BaseUrl = None,
    read_only: ReadOnly = False,
    origin: Origin = None,
    mcp: Mcp = "review",
    redis: Redis = None,
    address: Address = None,
) -> None:
    """Serve the texts of a folder as pages on which people and an assistant write together."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"shared pages need libraries that are not installed: {', '.join(missing)}",
            hint="pip install 'kakite[collab]', in the environment that has kakite",
            code="missing_extra",
        )
    from kakite.cli.serving import token_of
    from kakite.cli.settings import load_settings
    from kakite.serve.web import listen, parse_address

    workspace = _workspace(folder)
    settings = load_settings({"model": model, "base_url": base_url})
    assistant = _assistant(settings)
    place = parse_address(http)
    given = token_of(os.environ)
    token = given or secrets.token_urlsafe(32)
    listening = listen(place, "--http")
    pages = _pages(workspace, read_only=read_only, relay=_relay(redis, address or _page(listening)))
    door = _door(place.host, listening.getsockname()[1], token, settings, origin or ())
    door = replace(door, is_shared=redis is not None)
    if sys.stdout.isatty():
        _welcome(listening, door, str(pages.workspace.roots[0]), settings.model, told=not given)
    else:
        _announce(listening, door, told=not given)
    from kakite.collab.serving import serve_site
    from kakite.collab.web import build_site

    site = build_site(pages, door, assistant, mcp, issuer=_issuer(settings))
    asyncio.run(serve_site(site, listening))


def _door(host: str, port: int, token: str, settings: Settings, origins: Sequence[str]) -> Door:
    from kakite.collab.gate import Door, Proxy, networks

    proxy = None
    if settings.collab_proxy_header:
        try:
            addresses = networks(settings.collab_proxy_addresses)
        except ValueError as error:
            raise UsageError(f"`collab_proxy_addresses`: {error}", code="bad_address") from error
        if not addresses:
            raise UsageError(
                "`collab_proxy_header` is set, and `collab_proxy_addresses` is not",
                hint="name the proxy's address: anybody can send a header",
                code="bad_address",
            )
        proxy = Proxy(header=settings.collab_proxy_header.lower(), addresses=addresses)
    return Door(
        host=host,
        port=port,
        token=token,
        origins=(*origins, *settings.collab_origins),
        proxy=proxy,
        rights=settings.collab_people,
    )


def _issuer(settings: Settings) -> Issuer | None:
    said = settings.collab_oidc
    if not said:
        return None
    from kakite.collab.signin import Issuer

    if set(said) - {"claim"} != {"issuer", "client"}:
        hint = "give `issuer`, `client` and perhaps `claim`; the secret is taken from KAKITE_OIDC_SECRET"
        raise UsageError("`collab_oidc` does not say who signs people in", hint=hint, code="bad_address")
    secret = os.environ.get("KAKITE_OIDC_SECRET", "")
    return Issuer(url=said["issuer"], client=said["client"], secret=secret, claim=said.get("claim", "email"))


def _assistant(settings: Settings) -> Assistant:
    from kakite.collab.assistant import Assistant
    from kakite.models.providers import open_model

    if not settings.model:
        return Assistant()
    model = open_model(settings.model, base_url=settings.base_url or None, environ=os.environ)
    return Assistant(model)


def _relay(url: str | None, address: str) -> Relay | None:
    if url is None:
        return None
    from kakite.collab.relay import Relay

    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise UsageError(
            f"`{url}` is no address of Redis", hint="give redis://HOST:PORT/N", code="bad_address"
        )
    return Relay(url, address)


def _workspace(folder: Path) -> Workspace:
    from kakite.cli.kept_days import kept_days
    from kakite.workspace import Workspace, WorkspaceError, open_history, state_folder

    root = os.path.realpath(folder)
    if Path(root).is_file():
        hint = f"give its folder: `{Path(root).parent}`"
        raise UsageError(f"`{folder}` is a file, not a folder", hint=hint, code="not_a_directory")
    try:
        history = open_history(state_folder(os.environ), root, days=kept_days(os.environ))
        return Workspace([root], history=history)
    except WorkspaceError as error:
        raise UsageError(error.message, hint="give a folder that is there", code=error.code) from error


def _pages(workspace: Workspace, *, read_only: bool, relay: Relay | None) -> Pages:
    from kakite.collab.pages import Pages
    from kakite.collab.store import Store, store_file
    from kakite.workspace import state_folder

    state = state_folder(os.environ)
    return Pages(workspace, Store(store_file(state, workspace.roots[0])), relay=relay, read_only=read_only)


def _page(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _welcome(listening: socket.socket, door: Door, folder: str, model: str, *, told: bool) -> None:
    """Tell a person at a terminal what to open, and what is served."""
    page = _page(listening)
    link = f"{page}?token={door.token}" if told else f"{page}   (log in with what KAKITE_TOKEN holds)"
    reading = [("to read only", f"{page}?token={door.reading_token}")] if told else []
    lines = [
        ("open this", link),
        *reading,
        ("folder", visible_name(folder)),
        ("model", visible_name(model) or "none: people write alone (--model PROVIDER:NAME)"),
    ]
    for label, text in lines:
        sys.stdout.write(f"{label + ':':<14}{text}\n")
    sys.stdout.write("Ctrl-C ends it.\n")
    sys.stdout.flush()


def _announce(listening: socket.socket, door: Door, *, told: bool) -> None:
    """Tell a person what to open, and then a program, on standard output, the bare address."""
    page = _page(listening)
    if told:
        sys.stderr.write(f"open this:    {page}?token={door.token}\n")
        sys.stderr.write(f"to read only: {page}?token={door.reading_token}\n")
    else:
        sys.stderr.write(f"open this:    {page}   (log in with what KAKITE_TOKEN holds)\n")
    sys.stderr.write("for programs, on standard output, the address without a token:\n")
    sys.stderr.flush()
    sys.stdout.write(f"{page}\n")
    sys.stdout.flush()

"""``kakite collab``: serves the pages of a folder, which people and an assistant edit together."""

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

from kakite.cli.console import escape_one_line
from kakite.cli.options import DEFAULT_ADDRESS, Http
from kakite.errors import UsageError
from kakite.installation import get_extra_install_command

if TYPE_CHECKING:
    from kakite.cli.settings import Settings
    from kakite.collab.assistant.assistant import Assistant
    from kakite.collab.auth.oidc import OidcIssuer
    from kakite.collab.auth.policy import AuthPolicy
    from kakite.collab.redis.cluster import ClusterNode
    from kakite.collab.registry import DocumentRegistry
    from kakite.workspace import Workspace

_REQUIRED_LIBRARIES = ("fastapi", "pycrdt", "websockets")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder whose text files become pages.")]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Let people read the pages, but not change them.")
]
Origin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL", help="The address of a proxy through which people open the pages; may be repeated."
    ),
]


Mcp = Annotated[
    Literal["review", "auto"],
    typer.Option(
        "--mcp",
        help="What to do with edits over MCP: review (make them suggestions) or auto (change the text "
        "at once).",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER:NAME", help="The assistant's model. Without one, people write without an assistant."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a server that speaks the provider's API.")
]
Redis = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Share the pages with other processes through this Redis: redis://HOST:PORT/N.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The address at which other processes reach this one. Default: where it listens."
    ),
]


def collab(
    folder: Folder,
    http: Http = DEFAULT_ADDRESS,
    model: Model = None,
    base_url: BaseUrl = None,
    read_only: ReadOnly = False,
    origin: Origin = None,
    mcp: Mcp = "review",
    redis: Redis = None,
    address: Address = None,
) -> None:
    """Serve a folder's text files as web pages that people and an assistant edit together."""
    missing = [name for name in _REQUIRED_LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"shared pages need libraries that are not installed: {', '.join(missing)}",
            hint=get_extra_install_command("collab"),
            code="missing_extra",
        )
    from kakite.cli.serve_command import load_token
    from kakite.cli.settings import load_settings
    from kakite.serve.streamable_http import listen, parse_address

    workspace = _open_workspace(folder)
    settings = load_settings({"model": model, "base_url": base_url})
    assistant = _open_assistant(settings)
    place = parse_address(http)
    given = load_token(os.environ)
    token = given or secrets.token_urlsafe(32)
    listening = listen(place, "--http")
    pages = _build_registry(
        workspace, read_only=read_only, relay=_build_cluster(redis, address or _format_url(listening))
    )
    door = _build_auth_policy(place.host, listening.getsockname()[1], token, settings, origin or ())
    door = replace(door, is_shared=redis is not None)
    if sys.stdout.isatty():
        _print_welcome(listening, door, str(pages.workspace.roots[0]), settings.model, told=not given)
    else:
        _print_address(listening, door, told=not given)
    from kakite.collab.app import create_collab_server, serve_collab

    site = create_collab_server(pages, door, assistant, mcp, issuer=_build_issuer(settings))
    asyncio.run(serve_collab(site, listening))


def _build_auth_policy(
    host: str, port: int, token: str, settings: Settings, origins: Sequence[str]
) -> AuthPolicy:
    from kakite.collab.auth.policy import AuthPolicy, TrustedProxy, parse_networks

    proxy = None
    if settings.collab_proxy_header:
        try:
            addresses = parse_networks(settings.collab_proxy_addresses)
        except ValueError as error:
            raise UsageError(f"`collab_proxy_addresses`: {error}", code="bad_address") from error
        if not addresses:
            raise UsageError(
                "`collab_proxy_header` is set, and `collab_proxy_addresses` is not",
                hint="name the proxy's address: anybody can send a header",
                code="bad_address",
            )
        proxy = TrustedProxy(header=settings.collab_proxy_header.lower(), addresses=addresses)
    return AuthPolicy(
        host=host,
        port=port,
        token=token,
        origins=(*origins, *settings.collab_origins),
        proxy=proxy,
        rights=settings.collab_people,
    )


def _build_issuer(settings: Settings) -> OidcIssuer | None:
    said = settings.collab_oidc
    if not said:
        return None
    from kakite.collab.auth.oidc import OidcIssuer

    if set(said) - {"claim"} != {"issuer", "client"}:
        hint = "give `issuer`, `client` and perhaps `claim`; put the secret into KAKITE_OIDC_SECRET"
        raise UsageError("`collab_oidc` does not say who signs people in", hint=hint, code="bad_address")
    secret = os.environ.get("KAKITE_OIDC_SECRET", "")
    return OidcIssuer(
        url=said["issuer"], client=said["client"], secret=secret, claim=said.get("claim", "email")
    )


def _open_assistant(settings: Settings) -> Assistant:
    from kakite.cli.settings import build_all_model_options
    from kakite.collab.assistant.assistant import Assistant
    from kakite.models.factory import open_model
    from kakite.models.model import ModelConfigError

    if not settings.model:
        return Assistant()
    try:
        model = open_model(
            settings.model,
            base_url=settings.base_url or None,
            environ=os.environ,
            options=build_all_model_options(settings),
        )
    except ModelConfigError as error:
        if error.code == "model_no_key":
            error.hint += ", or leave out --model: people then write without an assistant"
        raise
    return Assistant(model, memory=settings.collab_memory)


def _build_cluster(url: str | None, address: str) -> ClusterNode | None:
    if url is None:
        return None
    from kakite.collab.redis.cluster import ClusterNode

    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise UsageError(
            f"`{url}` is not an address of Redis", hint="give redis://HOST:PORT/N", code="bad_address"
        )
    return ClusterNode(url, address)


def _open_workspace(folder: Path) -> Workspace:
    from kakite.cli.light_settings import load_history_days
    from kakite.workspace import Workspace, WorkspaceError, ensure_state_folder, open_edit_log

    root = os.path.realpath(folder)
    if Path(root).is_file():
        hint = f"give its folder: `{Path(root).parent}`"
        raise UsageError(f"`{folder}` is a file, not a folder", hint=hint, code="not_a_directory")
    try:
        history = open_edit_log(ensure_state_folder(os.environ), root, days=load_history_days(os.environ))
        return Workspace([root], history=history)
    except WorkspaceError as error:
        raise UsageError(error.message, hint="give an existing folder", code=error.code) from error


def _build_registry(workspace: Workspace, *, read_only: bool, relay: ClusterNode | None) -> DocumentRegistry:
    from kakite.collab.registry import DocumentRegistry
    from kakite.collab.store import DocumentStore, prepare_store_file
    from kakite.workspace import ensure_state_folder

    state = ensure_state_folder(os.environ)
    return DocumentRegistry(
        workspace,
        DocumentStore(prepare_store_file(state, workspace.roots[0])),
        relay=relay,
        read_only=read_only,
    )


def _format_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _print_welcome(
    listening: socket.socket, door: AuthPolicy, folder: str, model: str, *, told: bool
) -> None:
    """Tell a person at a terminal what to open, and what is served."""
    page = _format_url(listening)
    link = f"{page}?token={door.token}" if told else f"{page}   (log in with the token in KAKITE_TOKEN)"
    reading = [("to read only", f"{page}?token={door.reading_token}")] if told else []
    lines = [
        ("open this", link),
        *reading,
        ("folder", escape_one_line(folder)),
        ("model", escape_one_line(model) or "none, so no assistant (give --model PROVIDER:NAME)"),
    ]
    for label, text in lines:
        sys.stdout.write(f"{label + ':':<14}{text}\n")
    sys.stdout.write("Press Ctrl-C to end.\n")
    sys.stdout.flush()


def _print_address(listening: socket.socket, door: AuthPolicy, *, told: bool) -> None:
    """Tell a person what to open, and then a program, on standard output, the bare address."""
    page = _format_url(listening)
    if told:
        sys.stderr.write(f"open this:    {page}?token={door.token}\n")
        sys.stderr.write(f"to read only: {page}?token={door.reading_token}\n")
    else:
        sys.stderr.write(f"open this:    {page}   (log in with the token in KAKITE_TOKEN)\n")
    sys.stderr.write("the address without a token, for programs, on standard output:\n")
    sys.stderr.flush()
    sys.stdout.write(f"{page}\n")
    sys.stdout.flush()

"""``kakite agent web``: serves the dashboard."""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.cli.agent.worker import Address, Engine, check_engine, ensure_agent_folder, open_workflow_client
from kakite.cli.options import DEFAULT_ADDRESS, Http
from kakite.cli.serve_command import load_token

if TYPE_CHECKING:
    from kakite.agent.dashboard.app import LoadRun
    from kakite.agent.dashboard.auth import DashboardAuth


def web(http: Http = DEFAULT_ADDRESS, engine: Engine = "embedded", address: Address = "") -> None:
    """Show tasks, runs and sessions live in your browser: answer their questions, write to sessions."""
    from kakite.agent.dashboard.auth import DashboardAuth
    from kakite.serve.streamable_http import listen, parse_address

    place = parse_address(http)
    check_engine(engine, address)
    given = load_token(os.environ)
    token = given or secrets.token_urlsafe(32)
    listening = listen(place, "--http")
    door = DashboardAuth(host=place.host, port=listening.getsockname()[1], token=token)
    page = _format_url(listening)
    if given:
        sys.stderr.write("log in with the token in KAKITE_TOKEN\n")
    sys.stdout.write(f"{page}\n" if given else f"{page}?token={token}\n")
    sys.stdout.flush()
    asyncio.run(_serve(engine, address, listening, door))


def _format_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


async def _serve(engine: str, address: str, listening: socket.socket, door: DashboardAuth) -> None:
    from kakite.agent.dashboard.app import DashboardConfig, create_app
    from kakite.agent.dashboard.local_runs import LocalRuns
    from kakite.agent.run.store import RunStore
    from kakite.redaction import build_redaction
    from kakite.serve.streamable_http import serve_app
    from kakite.workspace import ensure_state_folder

    load_run = _make_run_loader(ensure_agent_folder())
    runs = LocalRuns(RunStore(ensure_state_folder(os.environ)))
    async with open_workflow_client(engine, address) as client:
        site = DashboardConfig(
            client=client,
            load_run=load_run,
            by=_get_user_name(),
            redaction=build_redaction(os.environ),
            runs=runs,
        )
        await serve_app(create_app(site, door), listening)


def _make_run_loader(folder: Path) -> LoadRun:
    from kakite.agent.worker.snapshots import load_run
    from kakite.durable.blobs import BlobStore

    blobs = BlobStore(folder / "blobs")
    return lambda head: load_run(blobs, head)


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return f"user {os.getuid()}"

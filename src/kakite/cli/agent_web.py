"""``kakite agent web``: a page on which a person sees what the agent does, and answers what it asks."""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.cli.agent_worker import Address, Engine, agent_folder, check_engine, opened_ledger
from kakite.cli.listening import ADDRESS, Http
from kakite.cli.serving import token_of

if TYPE_CHECKING:
    from kakite.agent.web.door import Door
    from kakite.agent.web.site import LoadRun


def web(http: Http = ADDRESS, engine: Engine = "embedded", address: Address = "") -> None:
    """Show all tasks in the browser while they go on: plans, calls, changes, cost; answer what they ask."""
    from kakite.agent.web.door import Door
    from kakite.serve.web import listen, parse_address

    place = parse_address(http)
    check_engine(engine, address)
    given = token_of(os.environ)
    token = given or secrets.token_urlsafe(32)
    listening = listen(place, "--http")
    door = Door(host=place.host, port=listening.getsockname()[1], token=token)
    page = _page(listening)
    if given:
        sys.stderr.write("log in with the token that KAKITE_TOKEN holds\n")
    sys.stdout.write(f"{page}\n" if given else f"{page}?token={token}\n")
    sys.stdout.flush()
    asyncio.run(_serve(engine, address, listening, door))


def _page(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


async def _serve(engine: str, address: str, listening: socket.socket, door: Door) -> None:
    from kakite.agent.record import Records
    from kakite.agent.web.runs import Runs
    from kakite.agent.web.site import Site, build_site
    from kakite.host.redaction import secrets_of
    from kakite.serve.web import serve_app
    from kakite.workspace import state_folder

    load_run = _runs(agent_folder())
    runs = Runs(Records(state_folder(os.environ)))
    async with opened_ledger(engine, address) as ledger:
        site = Site(
            ledger=ledger, load_run=load_run, by=_person(), redaction=secrets_of(os.environ), runs=runs
        )
        await serve_app(build_site(site, door), listening)


def _runs(folder: Path) -> LoadRun:
    from kakite.agent.durable.blobs import Blobs
    from kakite.agent.saved import load_run

    blobs = Blobs(folder / "blobs")
    return lambda head: load_run(blobs, head)


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return f"user {os.getuid()}"

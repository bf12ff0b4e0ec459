"""``kakite debate runner``: the CLIs of this machine over HTTP, for a debate server in a container."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import secrets
import socket
import sys
from typing import Annotated

import typer

from kakite.errors import OutsideError, UsageError


class NoFastApiError(OutsideError):
    """The library that the runner needs is not installed.

    Code: ``missing_extra``.
    """

    code = "missing_extra"


_ELSEWHERE = re.compile(r"KAKITE_DEBATE_\w+_URL")

Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on. Containers on Linux reach that of their gateway: often 172.17.0.1."
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the first side; the others follow.")]
Sides = Annotated[
    list[str] | None,
    typer.Option(
        "--participant",
        "-p",
        metavar="NAME",
        help="Who can be asked; may be repeated. Default: codex, claude.",
    ),
]
AtOnce = Annotated[int, typer.Option(min=1, help="Programs of one side at work at once.")]


def runner(
    host: Host = "127.0.0.1", port: Port = 9001, participant: Sides = None, at_once: AtOnce = 4
) -> None:
    """Answer what a debate server in a container asks, with the CLIs and logins of this machine.

    Who asks must send the token that KAKITE_DEBATE_TOKEN holds; without it one is made and told.
    """
    if importlib.util.find_spec("fastapi") is None:
        raise NoFastApiError(
            "the runner needs a library that is not installed",
            hint="pip install 'kakite[debate]', in the environment that has kakite",
        )
    from kakite.cli.debating import sides_of
    from kakite.debate.by_runner import ByRunner
    from kakite.debate.configured import TOKEN
    from kakite.debate.record import DebateError
    from kakite.debate.runner import Door, build_runner, serve_runners
    from kakite.serve.web import Address, Limits, listen

    # One that is itself asked at a runner would be asked by us, and so on.
    environ = {name: value for name, value in os.environ.items() if not _ELSEWHERE.fullmatch(name)}
    try:
        participants = sides_of(participant or (), environ)
    except DebateError as error:
        raise UsageError(error.message, hint=error.hint, code=error.code) from error
    for each in participants:
        if isinstance(each, ByRunner):
            raise UsageError(
                f"`{each.side.name}` is itself asked at a runner, which may be this one",
                hint="leave out its `url` in the settings here, or name others with -p",
                code="bad_participant",
            )
    door = Door(token=_token(TOKEN), host=host)
    apps = [(build_runner(each, door, at_once=at_once), listen(Address(host=host, port=port and port + at)))
        for at, each in enumerate(participants)]  # fmt: skip
    for each, (_, listening) in zip(participants, apps, strict=True):
        sys.stdout.write(f"{_url(listening)}/{each.side.name}\n")
    sys.stdout.flush()
    asyncio.run(serve_runners(apps, Limits(connections=128)))


def _token(variable: str) -> str:
    from kakite.cli.serving import header_token

    token = header_token(variable, os.environ)
    if not token:
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"start the debate server with  {variable}={token}\n")
    return token


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

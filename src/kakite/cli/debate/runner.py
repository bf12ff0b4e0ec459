"""``kakite debate runner``: serves this machine's CLIs over HTTP, for a debate server in a container.

Also loads the participants from the person's settings, for the terminal, the server and the doctor.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.errors import ExternalError, UsageError
from kakite.installation import get_extra_install_command

if TYPE_CHECKING:
    from kakite.debate import Participant


def load_participants(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Participant, ...]:
    """Return the participants with those names; without names, those of the setting ``debate_sides``.

    Raises:
        DebateError: ``bad_participant``.
        ModelConfigError: there is no such model, or no key for it.
        ConfigError: the settings make no sense.
    """
    from kakite.cli.settings import build_all_model_options, load_settings
    from kakite.debate.participants.factory import create_participant

    settings = load_settings({}, environ)
    known = settings.debate_participants
    options = build_all_model_options(settings)
    return tuple(
        create_participant(name, environ, known.get(name), options) for name in names or settings.debate_sides
    )


class MissingExtraError(ExternalError):
    """The library that the runner needs is not installed.

    Code: ``missing_extra``.
    """

    code = "missing_extra"


_RUNNER_URL_VARIABLE = re.compile(r"KAKITE_DEBATE_\w+_URL")

Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on. For containers on Linux, use their gateway's address: often 172.17.0.1."
    ),
]
Port = Annotated[
    int,
    typer.Option(min=0, max=65535, help="Port of the first side; the other sides get the ports after it."),
]
RunnerParticipants = Annotated[
    list[str] | None,
    typer.Option(
        "--participant",
        "-p",
        metavar="NAME",
        help="A CLI that the server may ask; may be repeated. Default: codex, claude.",
    ),
]
RunnerConcurrency = Annotated[int, typer.Option(min=1, help="How many programs one side may run at once.")]


def runner(
    host: Host = "127.0.0.1",
    port: Port = 9001,
    participant: RunnerParticipants = None,
    at_once: RunnerConcurrency = 4,
) -> None:
    """Run CLIs for a debate server in a container, with their logins on this machine.

    The debate server must send the token in KAKITE_DEBATE_TOKEN. Without one, Kakite makes one and prints it.
    """
    if importlib.util.find_spec("fastapi") is None:
        raise MissingExtraError(
            "the runner needs a library that is not installed",
            hint=get_extra_install_command("debate"),
        )
    from kakite.debate.http_runner import RunnerAuth, create_runner_app, serve_runners
    from kakite.debate.model import DebateError
    from kakite.debate.participants.base import RemoteParticipant
    from kakite.debate.participants.factory import TOKEN_VARIABLE
    from kakite.serve.streamable_http import BindAddress, ServerLimits, listen

    # One that is itself asked at a runner would be asked by us, and so on.
    environ = {name: value for name, value in os.environ.items() if not _RUNNER_URL_VARIABLE.fullmatch(name)}
    try:
        participants = load_participants(participant or (), environ)
    except DebateError as error:
        raise UsageError(error.message, hint=error.hint, code=error.code) from error
    for each in participants:
        if isinstance(each, RemoteParticipant):
            raise UsageError(
                f"`{each.side.name}` is itself reached through a runner, which may be this one",
                hint="remove its `url` from the settings here, or name others with -p",
                code="bad_participant",
            )
    door = RunnerAuth(token=_get_token(TOKEN_VARIABLE), host=host)
    apps = [
        (
            create_runner_app(each, door, at_once=at_once),
            listen(BindAddress(host=host, port=port and port + at)),
        )
        for at, each in enumerate(participants)
    ]
    for each, (_, listening) in zip(participants, apps, strict=True):
        sys.stdout.write(f"{_format_url(listening)}/{each.side.name}\n")
    sys.stdout.flush()
    asyncio.run(serve_runners(apps, ServerLimits(connections=128)))


def _get_token(variable: str) -> str:
    from kakite.cli.serve_command import load_header_token

    token = load_header_token(variable, os.environ)
    if not token:
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"start the debate server with  {variable}={token}\n")
    return token


def _format_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

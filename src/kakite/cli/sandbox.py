"""``kakite sandbox``: runs a command in a sandbox, builds images, lists and removes what containers left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.cli.settings import Settings
    from kakite.processes import CompletedProcess, Stream
    from kakite.sandbox import Sandbox

app = typer.Typer(
    help="Run a command in a sandbox, build container images, and list and remove what runs left behind.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="The command, after `--`.")],
    folder: Annotated[
        Path, typer.Option("--folder", "-C", help="The folder to work in. Default: this one.")
    ] = Path(),
    sandbox: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="auto, container, bubblewrap, local or container:IMAGE."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="NETWORK", help="What the command may reach: off, registries or open."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Allow another host with registries. Repeatable."),
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option("--stdin", "-i", metavar="", help="Give the command this command's standard input."),
    ] = False,
) -> None:
    """Run a command in the sandbox that sessions have, in a folder as it is.

    The settings are those of a session, such as network and hosts. The exit code is the command's.
    """
    from kakite.cli.exit_codes import run_until_signal
    from kakite.cli.settings import load_settings

    place = folder.resolve()
    if not place.is_dir():
        raise UsageError(f"`{folder}` is not a folder", code="folder_missing")
    flags = {"sandbox": sandbox, "network": network, "hosts": tuple(hosts) if hosts else None}
    settings = load_settings(flags, repository=str(place))
    given = sys.stdin.buffer.read() if stdin else b""
    if settings.sandbox == "local" and sandbox != "local":
        hint = "--sandbox local runs it without isolation"
        raise UsageError("the setting sandbox is `local`, which isolates nothing", hint=hint)
    try:
        done = asyncio.run(run_until_signal(_run(tuple(command), place, settings, given)))
    except _OutputClosedError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left for it goes nowhere
        raise typer.Exit(128 + signal.SIGPIPE) from None
    if done.limit:
        _print_line(f"the command reached its limit of {done.limit}")
    raise typer.Exit(1 if done.exit_code is None else done.exit_code)


async def _run(command: tuple[str, ...], folder: Path, settings: Settings, stdin: bytes) -> CompletedProcess:
    from kakite.cli.session_setup import choose_session_sandbox
    from kakite.sandbox import SandboxError, SandboxSpec, open_sandbox
    from kakite.sandbox.files.temp import temporary_folder

    kind, _ = choose_session_sandbox(settings.sandbox)
    if kind == "local" and settings.sandbox != kind:
        hint = "install bubblewrap (`apt install bubblewrap`); --sandbox local runs it without isolation"
        raise SandboxError("there is no sandbox on this machine", hint=hint, code="sandbox_missing")
    terms = SandboxSpec(
        network=settings.network,
        hosts=settings.hosts,
        credentials=settings.credentials,
        requests=settings.requests,
    )
    with temporary_folder("sandbox") as task:
        place = open_sandbox(kind, task / "task", terms=terms, project=folder)
        try:
            await place.prepare()
            for note in place.notes:
                _print_line(note)
            return await _exec(place, command, stdin)
        finally:
            await place.destroy()


class _OutputClosedError(Exception):  # never leaves this module
    """Nobody reads our output any more."""


async def _exec(place: Sandbox, command: tuple[str, ...], stdin: bytes) -> CompletedProcess:
    """Run the command, and pass its output on as it comes; without a reader it ends."""
    closed = asyncio.Event()

    def pass_on(stream: Stream, data: bytes) -> None:
        target = sys.stdout if stream == "stdout" else sys.stderr
        try:
            target.buffer.write(data)
            target.buffer.flush()
        except BrokenPipeError:
            closed.set()

    work = asyncio.create_task(place.exec(command, stdin=stdin, timeout=None, on_output=pass_on))
    waiting = asyncio.create_task(closed.wait())
    try:
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise _OutputClosedError
    finally:
        waiting.cancel()
        work.cancel()
        await asyncio.wait((work,))


@app.command("build")
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[IMAGE]…", help="Images to build: base, python, node, go, rust, java. Default: base."
        ),
    ] = None,
    base: Annotated[str, typer.Option(help="Debian 12 image to build on. Default: the official one.")] = "",
    network: Annotated[
        str, typer.Option(help="Docker's or Podman's network for the build, which downloads Debian packages.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Build images that contain this Kakite, with Docker or Podman."""
    from kakite.sandbox.backends import engine, images

    containers = engine.find(os.environ)
    built = images.build(containers, names or [images.DEFAULT], base=base, network=network, told=_print_line)
    if as_json:
        typer.echo(json.dumps({"engine": containers.name, "images": built}))
        return
    for name in built:
        typer.echo(name)


@app.command("list")
def list_resources(as_json: Json = False) -> None:
    """List your Kakite images, containers and volumes in Docker or Podman."""
    from kakite.sandbox.backends import engine
    from kakite.sandbox.container import cleanup

    found = cleanup.read_inventory(engine.find(os.environ))
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    for image in found.images:
        typer.echo(f"image      {image}")
    for container in found.containers:
        typer.echo(f"container  {container.name}  {'in use' if container.lives else 'left behind'}")
    for volume in found.volumes:
        typer.echo(f"{volume.holds:<9}  {volume.name}  since {volume.since}")


@app.command("prune")
def prune(
    days: Annotated[
        int, typer.Option(min=0, max=36500, help="Keep caches that are younger than N days.")
    ] = 30,
    all_caches: Annotated[bool, typer.Option("--all", help="Remove caches of any age.")] = False,
    work: Annotated[
        bool, typer.Option(help="Also remove work that runs left on a Docker or Podman of another machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers of runs that died, and old package caches."""
    from kakite.sandbox.backends import engine
    from kakite.sandbox.container import cleanup

    removed = cleanup.prune(engine.find(os.environ), days=0 if all_caches else days, work=work)
    if as_json:
        typer.echo(json.dumps(asdict(removed)))
        return
    for name in (*removed.containers, *removed.volumes):
        typer.echo(name)


def _print_line(line: str) -> None:
    typer.echo(line, err=True)

"""``kakite sandbox``: builds container images, and lists and removes what containers left."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer

app = typer.Typer(
    help="Build container images, and list and remove what runs left behind.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


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

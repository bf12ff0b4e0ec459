"""``kakite doctor``: what is here, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Annotated, Literal

import typer

State = Literal["ok", "missing", "optional"]
"""``missing`` is needed for the main job; ``optional`` would be useful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked for."""

    topic: str
    name: str
    state: State
    told: str
    """What was found: a version, a reason. Never a key."""
    remedy: str = ""


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document to standard output.")
    ] = False,
) -> None:
    """Show what is installed, which sandboxes and models can be used, and how to get what is missing."""
    findings = list(examine())
    healthy = all(finding.state != "missing" for finding in findings)
    if as_json:
        typer.echo(
            json.dumps({"ok": healthy, "findings": [asdict(found) for found in findings]}, ensure_ascii=False)
        )
    else:
        _print(findings)
    raise typer.Exit(0 if healthy else 1)


def examine() -> Iterator[Finding]:
    """Look at this machine."""
    yield Finding(
        topic="system", name="Python", state="ok", told=f"{platform.python_version()} ({sys.executable})"
    )
    yield _program("git", "apt install git", needed=True)
    yield _confinement()
    yield from _sandboxes()
    yield from _models()


def _program(name: str, remedy: str, *, needed: bool = False) -> Finding:
    path = shutil.which(name)
    if path is None:
        state: State = "missing" if needed else "optional"
        return Finding(topic="programs", name=name, state=state, told="not found", remedy=remedy)
    return Finding(topic="programs", name=name, state="ok", told=_version(path))


def _version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return path
    found = re.search(rb"\d+(\.\d+)+", done.stdout + done.stderr)
    return f"{found.group().decode()} ({path})" if found else path


def _confinement() -> Finding:
    from kakite.workspace import kernel_confines

    if kernel_confines():
        return Finding(topic="system", name="path confinement", state="ok", told="by the kernel (openat2)")
    return Finding(
        topic="system",
        name="path confinement",
        state="optional",
        told="component by component, links inside a workspace are refused",
        remedy="a Linux kernel of 5.6 or newer",
    )


def _sandboxes() -> Iterator[Finding]:
    import asyncio

    from kakite.sandbox import kinds

    for kind in asyncio.run(kinds()):
        state: State = "ok" if kind.available else "optional"
        yield Finding(topic="sandboxes", name=kind.name, state=state, told=kind.note)


def _models() -> Iterator[Finding]:
    from kakite.models.providers import PROVIDERS

    if find_spec("pydantic_ai") is None:
        yield Finding(
            topic="models",
            name="library",
            state="missing",
            told="not installed",
            remedy='pip install "kakite[agent]"',
        )
        return
    configured = [provider for provider in PROVIDERS.values() if provider.configured(os.environ)]
    for provider in configured:
        yield Finding(topic="models", name=provider.name, state="ok", told=provider.note)
    if not configured:
        yield Finding(
            topic="models",
            name="key",
            state="optional",
            told="no provider's key is set",
            remedy="export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=… or GEMINI_API_KEY=…, "
            "or use a server of your own with --base-url; `kakite agent demo` needs none",
        )


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    marks = {"ok": "[green]✓[/]", "missing": "[red]✗[/]", "optional": "[yellow]–[/]"}
    table = Table(box=None, pad_edge=False, show_header=False)
    topic = ""
    for found in findings:
        shown = "" if found.topic == topic else found.topic
        topic = found.topic
        told = (
            f"{found.told}\n[dim]get it: {found.remedy}[/]"
            if found.remedy and found.state != "ok"
            else found.told
        )
        table.add_row(f"[bold]{shown}[/]", marks[found.state], found.name, told)
    Console(highlight=False).print(table)

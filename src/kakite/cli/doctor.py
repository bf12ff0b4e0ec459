"""``kakite doctor``: checks what is installed, and prints how to install what is missing."""

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
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kakite.installation import get_extra_install_command
from kakite.terminal_text import escape_one_line

if TYPE_CHECKING:
    from kakite.debate import ProbeResult

State = Literal["ok", "missing", "optional", "broken"]
"""``missing`` is needed for the main job; ``optional`` would be useful; ``broken`` stops commands."""


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
    sandbox: Annotated[
        bool,
        typer.Option(
            "--sandbox", help="Try to get out of each kind of sandbox, and report which attempts it stopped."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="With --sandbox: also list the attempts that the sandbox stopped."
        ),
    ] = False,
) -> None:
    """Show what is installed, which sandboxes and models you can use, and how to get what is missing."""
    if sandbox:
        from kakite.cli.sandbox_selftest import run_selftest

        raise typer.Exit(run_selftest(as_json=as_json, verbose=verbose))
    findings = list(examine())
    healthy = all(finding.state in {"ok", "optional"} for finding in findings)
    if as_json:
        typer.echo(
            json.dumps({"ok": healthy, "findings": [asdict(found) for found in findings]}, ensure_ascii=False)
        )
    else:
        _print_findings(findings)
    raise typer.Exit(0 if healthy else 1)


def examine() -> Iterator[Finding]:
    """Look at this machine."""
    yield Finding(
        topic="system", name="Python", state="ok", told=f"{platform.python_version()} ({sys.executable})"
    )
    yield _check_confinement()
    yield _check_landlock()
    yield _check_program("git", "apt install git", needed=True)
    yield _check_ripgrep()
    yield from _check_sandboxes()
    yield from _check_extras()
    yield from _check_settings()
    yield from _check_models()
    yield from _check_debates()


def _check_program(name: str, remedy: str, *, needed: bool = False) -> Finding:
    path = shutil.which(name)
    if path is None:
        state: State = "missing" if needed else "optional"
        return Finding(topic="programs", name=name, state=state, told="not found", remedy=remedy)
    return Finding(topic="programs", name=name, state="ok", told=_read_version(path))


def _check_ripgrep() -> Finding:
    from kakite.tools import find_ripgrep

    path = find_ripgrep(os.environ)
    if path is not None:
        return Finding(topic="programs", name="ripgrep", state="ok", told=_read_version(path))
    return Finding(
        topic="programs",
        name="ripgrep",
        state="optional",
        told="not found: find_in_files is slower in large folders",
        remedy="apt install ripgrep",
    )


def _read_version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return path
    found = re.search(rb"\d+(\.\d+)+", done.stdout + done.stderr)
    return f"{found.group().decode()} ({path})" if found else path


def _check_confinement() -> Finding:
    from kakite.workspace import has_openat2

    if has_openat2():
        return Finding(topic="system", name="path confinement", state="ok", told="by the kernel (openat2)")
    return Finding(
        topic="system",
        name="path confinement",
        state="optional",
        told="by Kakite, step by step from the folder",
        remedy="a Linux kernel of 5.6 or newer",
    )


def _check_landlock() -> Finding:
    from kakite.workspace import landlock

    version = landlock.get_landlock_version()
    return Finding(
        topic="system",
        name="Landlock",
        state="ok" if version else "optional",
        told=f"version {version}" if version else "not offered by the kernel",
        remedy="" if version else "a Linux kernel of 5.13 or newer, with Landlock on",
    )


def _check_sandboxes() -> Iterator[Finding]:
    import asyncio

    from kakite.sandbox import list_backends

    for kind in asyncio.run(list_backends()):
        state: State = "ok" if kind.available else "optional"
        yield Finding(topic="sandboxes", name=kind.name, state=state, told=kind.note)


_EXTRAS = {
    "agent": "pydantic_ai",
    "collab": "pycrdt",
    "debate": "fastapi",
    "forges": "github",
    "temporal": "temporalio",
    "telemetry": "opentelemetry.sdk",
    "syntax": "tree_sitter",
}
"""Of each extra a package that comes with it alone, or nearly so."""


def _check_extras() -> Iterator[Finding]:
    for extra, package in _EXTRAS.items():
        if _is_installed(package):
            yield Finding(topic="extras", name=extra, state="ok", told="installed")
        else:
            remedy = get_extra_install_command(extra)
            yield Finding(topic="extras", name=extra, state="optional", told="not installed", remedy=remedy)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it lies in is not there either
        return False


def _check_settings() -> Iterator[Finding]:
    from kakite.cli.settings import find_broken_files

    for error in find_broken_files():
        yield Finding(
            topic="settings",
            name="kakite.yaml",
            state="broken",
            told=escape_one_line(error.message),
            remedy=escape_one_line(error.hint),
        )


_DOCUMENTED_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}
"""The variables that the documentation names; others may do as well."""


def _check_models() -> Iterator[Finding]:
    from kakite.models.providers import PROVIDERS

    if find_spec("pydantic_ai") is None:
        remedy = get_extra_install_command("agent")
        yield Finding(topic="models", name="library", state="optional", told="not installed", remedy=remedy)
        return
    for provider in PROVIDERS.values():
        keyed = any(os.environ.get(name) for name in provider.variables)
        if keyed:
            yield Finding(topic="models", name=provider.name, state="ok", told="a key is set")
        elif provider.name in _DOCUMENTED_KEYS:
            remedy = f"export {_DOCUMENTED_KEYS[provider.name]}=…"
            yield Finding(topic="models", name=provider.name, state="optional", told="no key", remedy=remedy)
    own = "--model openai:NAME --base-url URL, or --model ollama:NAME"
    yield Finding(topic="models", name="your own server", state="ok", told=own)
    yield Finding(topic="models", name="scripted", state="ok", told="`kakite agent demo` needs no key")


def _check_debates() -> Iterator[Finding]:
    import asyncio

    from kakite.cli.debate.runner import load_participants
    from kakite.cli.settings import find_broken_files
    from kakite.errors import KakiteError

    try:
        sides = load_participants((), os.environ)
    except KakiteError as error:
        if not any(find_broken_files()):  # else it is told already
            yield Finding(
                topic="debates", name="sides", state="optional", told=error.message, remedy=error.hint
            )
        return

    async def probe_participants() -> list[ProbeResult]:
        return await asyncio.gather(*(side.probe() for side in sides))

    for side, seen in zip(sides, asyncio.run(probe_participants()), strict=True):
        state: State = "ok" if seen.state in {"ok", "unknown"} else "optional"
        yield Finding(
            topic="debates",
            name=side.side.name,
            state=state,
            told=escape_one_line(seen.told),
            remedy=seen.remedy,
        )


_PADDING = 8  # cells for the marks and between columns


def _print_findings(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    marks = {
        "ok": Text("✓", "green"),
        "missing": Text("✗", "red"),
        "broken": Text("✗", "red"),
        "optional": Text("–", "yellow"),
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    topic = ""
    for found in findings:
        told = Text(found.told)
        if found.remedy and found.state != "ok":
            told.append(f"\n{'' if found.state == 'broken' else 'get it: '}{found.remedy}", "dim")
        table.add_row(
            Text("" if found.topic == topic else found.topic, "bold"), marks[found.state], found.name, told
        )
        topic = found.topic
    console = Console(highlight=False)
    names = max(len(found.topic) for found in findings) + max(len(found.name) for found in findings)
    longest = max(len(word) for found in findings for word in (*found.told.split(), *found.remedy.split()))
    console.width = max(
        console.width, names + _PADDING + longest
    )  # a path is never cut in two: it can be copied
    console.print(table)

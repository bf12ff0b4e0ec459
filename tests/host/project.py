"""A project's folder with servers, and the person whose it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kakite.host.host import ConsentResult, Host

TOLD = Path(__file__).with_name("told.py")


def tool(name: str, description: str = "Says it back.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


class Project:
    """Files below one folder: the project, the person's home, and what servers are told to do."""

    def __init__(self, folder: Path) -> None:
        self.top = folder
        self.folder = _made(folder / "project")
        self.home = _made(folder / "person")
        self.scripts = _made(folder / "scripts")

    @property
    def state(self) -> Path:
        """What Kakite keeps for this person."""
        return self.home / ".local" / "state" / "kakite"

    @property
    def file(self) -> Path:
        """The project's own list of servers."""
        return self.folder / ".pi" / "mcp-servers.json"

    @property
    def user_file(self) -> Path:
        return self.home / ".config" / "kakite" / "mcp-servers.json"

    def environ(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **more}

    def tell(self, name: str, *tools: Mapping[str, Any], **script: Any) -> None:
        """Say what a server does from now on; it notes in ``mark`` that it was started."""
        told = {"mark": str(self.mark(name)), "tools": list(tools), **script}
        file = self.scripts / f"{name}.json"
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(file)

    def told(self, name: str, *tools: Mapping[str, Any], **script: Any) -> dict[str, Any]:
        """Return an entry for such a server."""
        self.tell(name, *(tools or [tool("say")]), **script)
        return self.entry(name)

    def entry(self, name: str) -> dict[str, Any]:
        """Return the entry for the server of this name, which does what it was told before."""
        return {
            "command": sys.executable,
            "args": ["-I", "-S", str(TOLD), str(self.scripts / f"{name}.json")],
        }

    def mark(self, name: str) -> Path:
        return self.scripts / f"{name}.mark"

    def starts(self, name: str) -> list[int]:
        """Return the process ids of all starts of a server so far."""
        try:
            return [int(line) for line in self.mark(name).read_text(encoding="utf-8").split()]
        except FileNotFoundError:
            return []

    def left(self) -> list[int]:
        """Return the processes that run one of our servers still."""
        return [pid for pid in running(str(self.scripts)) if pid != os.getpid()]

    def write(self, servers: Mapping[str, Any], *, user: bool = False) -> None:
        file = self.user_file if user else self.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"servers": servers}), encoding="utf-8")


async def agree_to_all(host: Host, *names: str) -> tuple[ConsentResult, ...]:
    """Agree to servers, then to their tools, by the digests of what a person would be shown."""
    await host.reload()
    chosen = names or [entry.name for entry in host.entries]
    looks = [one for one in await host.inspect_servers(names=chosen) if one.digest]
    done = {one.entry.name: one for one in await host.accept({one.entry.name: one.digest for one in looks})}
    held = {name: one.look.digest for name, one in done.items() if one.look}
    done |= {one.entry.name: one for one in await host.accept(held)}
    return tuple(done.values())


def running(marker: str) -> list[int]:
    """Return the processes whose command line holds the marker."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if folder.name.isdigit() and marker.encode() in words:
            found.append(int(folder.name))
    return found


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder

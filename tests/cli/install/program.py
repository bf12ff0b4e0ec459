"""Runs `kakite install` in this process, with a home and a project of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kakite.cli.install.clients import Place, Scope, find_install_client
from kakite.cli.install.plan import Plan, carry_out, plan_install, plan_uninstall


@dataclass(frozen=True)
class Person:
    """A person's home and a project in it."""

    home: Path

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home)}

    def place(self, client: str, scope: Scope = "user") -> Place:
        found = find_install_client(client)
        return Place(client=found, scope=scope, project=self.project, environ=self.environ)

    def install(
        self, client: str, scope: Scope = "user", *, steers: bool = True, hosts: bool = False
    ) -> Plan:
        plan = plan_install(self.place(client, scope), steers=steers, hosts=hosts)
        carry_out(plan, self.environ)
        return plan

    def uninstall(self, client: str, scope: Scope = "user") -> Plan:
        plan = plan_uninstall(self.place(client, scope))
        carry_out(plan, self.environ)
        return plan

    def write(self, name: str, data: bytes | str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def files(self) -> dict[str, bytes | None]:
        """Return all files and folders, but what is remembered."""
        return {
            str(path.relative_to(self.home)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.home.rglob("*"))
            if ".local" not in path.parts
        }


def person(folder: Path) -> Person:
    found = Person(folder)
    found.project.mkdir(parents=True, exist_ok=True)
    return found

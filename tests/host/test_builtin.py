"""Which server is believed without being told to: our own, and nothing that could be another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kakite.host.config.model import HttpServer, ServerEntry, SourceLocation, StdioServer
from kakite.host.consent.gate import get_initial_folder, harden_entry, is_builtin
from kakite.host.open import open_host
from tests.host.project import Project

OWN = str(Path(sys.executable).with_name("kakite"))
ENVIRON = {"PATH": os.environ["PATH"]}


def entry(reached: StdioServer | HttpServer) -> ServerEntry:
    return ServerEntry(name="s", reached=reached, origin=SourceLocation(file="f", line=1, scope="project"))


@pytest.mark.parametrize("env", [{}, {"KAKITE_LOG": "INFO"}])
def test_our_own_server_is_believed(env: dict[str, str]) -> None:
    assert is_builtin(entry(StdioServer(command=OWN, args=("serve", "--root", "."), env=env)), ENVIRON)


@pytest.mark.parametrize(
    "reached",
    [
        StdioServer(command=OWN, args=("serve",), env={"PYTHONPATH": "evil"}),
        StdioServer(command=OWN, args=("serve",), env={"LD_PRELOAD": "evil.so"}),
        StdioServer(command=OWN, args=("serve",), env={"PATH": "evil"}),
        StdioServer(command=OWN, args=("agent", "serve")),
        StdioServer(command=OWN),
        StdioServer(command="bin/kakite", args=("serve",)),
        StdioServer(command=sys.executable, args=("serve",)),
        HttpServer(url="https://example.org/kakite"),
    ],
)
def test_what_could_be_another_program_is_not_believed(reached: StdioServer | HttpServer) -> None:
    assert not is_builtin(entry(reached), ENVIRON)


def test_another_program_by_our_name_is_not_believed(tmp_path: Path) -> None:
    other = tmp_path / "kakite"
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    other.chmod(0o755)
    named = entry(StdioServer(command="kakite", args=("serve",)))
    assert not is_builtin(named, {"PATH": f"{tmp_path}{os.pathsep}{ENVIRON['PATH']}"})


def test_whatever_the_name_stands_for_later_our_own_program_is_started(tmp_path: Path) -> None:
    named = tmp_path / "kakite"
    named.symlink_to(OWN)
    theirs = entry(StdioServer(command="kakite", args=("serve", "--root", ".")))
    assert is_builtin(theirs, {"PATH": str(tmp_path)})
    started = harden_entry(theirs).reached
    named.unlink()
    named.write_text("#!/bin/sh\n", encoding="utf-8")
    assert isinstance(started, StdioServer)
    assert (started.command, started.args) == (OWN, ("serve", "--root", "."))


@pytest.mark.parametrize(
    ("args", "folder"),
    [
        (("serve", "--root", "a", "--root", "b"), "a"),
        (("serve", "--tools", "editor", "--root=b"), "b"),
        (("serve", "--root", "."), "."),
    ],
)
def test_relative_paths_start_in_the_first_root(args: tuple[str, ...], folder: str, tmp_path: Path) -> None:
    found = get_initial_folder(StdioServer(command=OWN, args=args), str(tmp_path))
    assert Path(found) == (tmp_path / folder).resolve()


def test_without_a_root_it_is_not_known_where_paths_start() -> None:
    assert get_initial_folder(StdioServer(command=OWN, args=("serve",)), "/p") == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_program_put_in_our_place_before_the_start_is_not_started(tmp_path: Path) -> None:
    project, mark, named = Project(tmp_path), tmp_path / "mark", tmp_path / "bin" / "kakite"
    named.parent.mkdir()
    named.symlink_to(OWN)
    words = ["serve", "--root", ".", "--tools", "editor"]
    project.write({"ed": {"command": "kakite", "args": words, "timeouts": {"start": 60}}}, user=True)
    environ = project.environ(PATH=f"{named.parent}{os.pathsep}{ENVIRON['PATH']}")
    async with open_host(project.folder, environ=environ) as opened:
        named.unlink()
        named.write_text(f"#!/bin/sh\ntouch '{mark}'\n", encoding="utf-8")
        named.chmod(0o755)
        (editor,) = await opened.list_tools()
    assert (editor.name, editor.effect) == ("ed__text_editor", "write")
    assert not mark.exists()

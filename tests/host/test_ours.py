"""Which server is believed without being told to: our own, and nothing that could be another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kakite.host.entries import Address, Origin, Program, ServerEntry
from kakite.host.ours import is_ours

OWN = str(Path(sys.executable).with_name("kakite"))
ENVIRON = {"PATH": os.environ["PATH"]}


def entry(reached: Program | Address) -> ServerEntry:
    return ServerEntry(name="s", reached=reached, origin=Origin(file="f", line=1, scope="project"))


@pytest.mark.parametrize("env", [{}, {"KAKITE_LOG": "INFO"}])
def test_our_own_server_is_believed(env: dict[str, str]) -> None:
    assert is_ours(entry(Program(command=OWN, args=("serve", "--root", "."), env=env)), ENVIRON)


@pytest.mark.parametrize(
    "reached",
    [
        Program(command=OWN, args=("serve",), env={"PYTHONPATH": "evil"}),
        Program(command=OWN, args=("serve",), env={"LD_PRELOAD": "evil.so"}),
        Program(command=OWN, args=("serve",), env={"PATH": "evil"}),
        Program(command=OWN, args=("agent", "serve")),
        Program(command=OWN),
        Program(command="bin/kakite", args=("serve",)),
        Program(command=sys.executable, args=("serve",)),
        Address(url="https://example.org/kakite"),
    ],
)
def test_what_could_be_another_program_is_not_believed(reached: Program | Address) -> None:
    assert not is_ours(entry(reached), ENVIRON)


def test_another_program_by_our_name_is_not_believed(tmp_path: Path) -> None:
    other = tmp_path / "kakite"
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    other.chmod(0o755)
    named = entry(Program(command="kakite", args=("serve",)))
    assert not is_ours(named, {"PATH": f"{tmp_path}{os.pathsep}{ENVIRON['PATH']}"})

"""The person's formatters, run by a server that the kernel confines."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.forking import COMMAND, popen

from kakite.workspace.landlock import get_landlock_version

pytestmark = pytest.mark.skipif(get_landlock_version() == 0, reason="the kernel has no Landlock")

FORMAT = 'sed -i "s/=/ = /" "$1"\n'
LINES = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {
            "name": "text_editor",
            "arguments": {"command": "str_replace", "path": "a", "old_str": "1", "new_str": "2"},
        },
    },
]


class Edited(NamedTuple):
    content: str
    answer: str
    told: str


class House:
    """A home, and a folder of work beside it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = folder / "home", folder / "root"
        for each in (self.home / ".config/kakite", self.root):
            each.mkdir(parents=True)

    def put(self, path: str, script: str) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script, encoding="utf-8")
        file.chmod(0o755)
        return file

    def edit(self, command: str, *options: str, path: str = ".local/bin") -> Edited:
        """Return what becomes of an edit by a server whose person named this command."""
        settings = json.dumps({"after_edit": {"*": f"{command} {{file}}"}})
        (self.home / ".config/kakite/kakite.yaml").write_text(settings, encoding="utf-8")
        (self.root / "a").write_text("a=1\n", encoding="utf-8")
        env = {"HOME": str(self.home), "PATH": f"{self.home / path}:{os.environ['PATH']}"}
        env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        with popen(
            [*COMMAND, "serve", "--root", str(self.root), *options],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stderr is not None
            for line in LINES:
                program.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            program.stdin.flush()
            answers = [json.loads(program.stdout.readline()) for _ in range(2)]
            program.stdin.close()
            told = program.stderr.read()
        content = (self.root / "a").read_text(encoding="utf-8")
        return Edited(content, answers[1]["result"]["content"][0]["text"], told)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".local/bin", ".cargo/bin", "go/bin"])
def test_a_formatter_in_the_home_runs_as_the_person_named_it(house: House, folder: str) -> None:
    program = house.put(f"{folder}/myfmt", f"#!/bin/sh\n{FORMAT}")
    for command in ("myfmt", str(program)):
        edited = house.edit(command, path=folder)
        assert edited.content == "a = 2\n", edited


@pytest.mark.slow
def test_a_formatter_runs_with_the_venv_and_the_interpreter_that_it_lives_with(house: House) -> None:
    venv = ".local/share/pipx/venvs/fmt"
    house.put(f"{venv}/pyvenv.cfg", "home = /usr/bin\n")
    house.put(f"{venv}/lib/data", FORMAT)
    house.put(f"{venv}/bin/interpreter", '#!/bin/sh\n. "$(dirname "$0")/../lib/data"\n')
    house.put("opt/tool/bin/sh2", '#!/bin/sh\nexec sh "$@"\n')
    script = house.put(f"{venv}/bin/fmt", f"#!/usr/bin/env sh2\n. {house.home}/{venv}/lib/data\n")
    (house.home / ".local/bin").mkdir(parents=True)
    (house.home / ".local/bin/fmt").symlink_to(script)
    (house.home / ".local/bin/sh2").symlink_to(house.home / "opt/tool/bin/sh2")
    assert house.edit("fmt").content == "a = 2\n"


@pytest.mark.slow
def test_a_formatter_of_npm_reads_the_packages_beside_it(house: House) -> None:
    house.put(".npm/lib/node_modules/other/data", FORMAT)
    script = house.put(
        ".npm/lib/node_modules/fmt/bin/fmt", f"#!/bin/sh\n. {house.home}/.npm/lib/node_modules/other/data\n"
    )
    (house.home / ".npm/bin").mkdir()
    (house.home / ".npm/bin/fmt").symlink_to(script)
    assert house.edit("fmt", path=".npm/bin").content == "a = 2\n"


@pytest.mark.slow
def test_nothing_else_of_the_home_becomes_readable(house: House) -> None:
    secrets = [".ssh/id", ".config/gh/hosts.yml", ".local/share/keyrings/login", ".cargo/credentials.toml"]
    for each in secrets:
        house.put(each, "secret")
    look = "".join(f"cat {house.home}/{each}\n" for each in secrets)
    for path in (".local/bin", ".cargo/bin", ".", "bin"):
        house.put(f"{path}/peek", f"#!/bin/sh\n{look}ls {house.home}\n")
        edited = house.edit("peek", path=path)
        assert "secret" not in edited.answer
        assert edited.answer.count("ermission denied") == len(secrets) + 1, edited.answer


@pytest.mark.slow
def test_a_program_that_a_model_could_have_written_opens_nothing(house: House) -> None:
    house.put("opt/bin/sh2", "#!/bin/sh\n")
    (house.root / "fmt").write_text(f"#!{house.home}/opt/bin/sh2\n", encoding="utf-8")
    (house.root / "fmt").chmod(0o755)
    edited = house.edit(str(house.root / "fmt"))
    assert "ermission denied" in edited.answer
    assert edited.content == "a=2\n"


@pytest.mark.slow
def test_where_the_kernel_keeps_a_formatter_from_something_the_way_on_is_told(house: House) -> None:
    house.put("elsewhere/data", "")
    house.put(".local/bin/fmt", f"#!/bin/sh\n. {house.home}/elsewhere/data\n{FORMAT}")
    edited = house.edit("fmt")
    assert edited.content == "a=2\n"
    for said in (edited.answer, edited.told):
        assert "Landlock" in said
        assert "--no-landlock" in said
    free = house.edit("fmt", "--no-landlock")
    assert (free.content, free.told) == ("a = 2\n", "")


@pytest.mark.slow
def test_a_program_that_is_not_there_is_told_at_the_start(house: House) -> None:
    assert "`no-such-fmt` is not there" in house.edit("no-such-fmt").told

"""What the documentation must not leave out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kakite.cli.app import app
from kakite.cli.settings import Settings
from kakite.tools import Tool
from kakite.tools.apply_diffs import APPLY_DIFFS
from kakite.tools.find_in_files import FIND_IN_FILES
from kakite.tools.jobs import POLL_COMMAND, STOP_COMMAND
from kakite.tools.read_files import LIST_FILES, READ_FILES, SET_WORKSPACE
from kakite.tools.run_command import RUN_COMMAND
from kakite.tools.search_and_replace import SEARCH_AND_REPLACE
from kakite.tools.text_editor import TEXT_EDITOR
from kakite.tools.write_files import INSERT_CONTENTS, WRITE_FILES

ROOT = Path(__file__).parent.parent
DOCS = "\n".join(file.read_text(encoding="utf-8") for file in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
CODE = re.compile(r"""(?:code=|^    code = )"([a-z]\w+)\"""", re.MULTILINE)


REFUSAL = re.compile(r"(?:refused|Refusal)\(\d+, \"([a-z_]+)\"")
FORGE_CODE = re.compile(r"\"(forge_[a-z_]+)\"")


def _options() -> list[str]:
    found: list[str] = []
    for command in _leaves(get_command(app)):
        found += [
            option for parameter in command.params for option in parameter.opts if option.startswith("--")
        ]
    return sorted(set(found) - {"--install-completion", "--show-completion"})


def _leaves(command: Any) -> list[Any]:
    inner = getattr(command, "commands", None)
    return [leaf for child in inner.values() for leaf in _leaves(child)] if inner else [command]


@pytest.mark.parametrize("option", _options())
def test_every_option_is_documented(option: str) -> None:
    assert f"`{option}`" in DOCS or f"`{option} " in DOCS


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in DOCS
    assert f"`KAKITE_{name.upper()}`" in DOCS


def _codes() -> list[str]:
    files = [
        file
        for part in (
            *("agent", "agent/durable", "agent/forges", "agent/web", "collab"),
            *("cli", "host", "tools", "workspace", "serve"),
        )
        for file in ROOT.glob(f"src/kakite/{part}/*.py")
    ]
    found = {code for file in files for code in CODE.findall(file.read_text(encoding="utf-8"))}
    for file in ROOT.glob("src/kakite/collab/*.py"):
        found |= set(REFUSAL.findall(file.read_text(encoding="utf-8")))
    for file in ROOT.glob("src/kakite/agent/forges/*.py"):
        found |= set(FORGE_CODE.findall(file.read_text(encoding="utf-8")))
    workspace = (ROOT / "src/kakite/workspace/failures.py").read_text(encoding="utf-8")
    return sorted(found | set(re.findall(r"``([a-z_]+)``", workspace)))


@pytest.mark.parametrize("code", _codes())
def test_every_error_code_is_documented(code: str) -> None:
    assert f"`{code}`" in DOCS


TOOLS = [
    *(
        TEXT_EDITOR,
        RUN_COMMAND,
        POLL_COMMAND,
        STOP_COMMAND,
        SET_WORKSPACE,
        READ_FILES,
        LIST_FILES,
        FIND_IN_FILES,
    ),
    *(WRITE_FILES, INSERT_CONTENTS, APPLY_DIFFS, SEARCH_AND_REPLACE),
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_argument_of_a_tool_is_documented(tool: Tool) -> None:
    assert f"`{tool.name}`" in DOCS
    for argument in tool.parameters["properties"]:
        assert f"`{argument}`" in DOCS or f"`{argument}:" in DOCS


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for file in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


def test_no_file_keeps_the_marks_of_a_merge() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    if not names:
        pytest.skip("this is no checkout of git")
    marked = re.compile(rb"^(?:<{7} (?!SEARCH)|>{7} (?!REPLACE)|\|{7} )", re.MULTILINE)
    for name in names.decode().strip("\0").split("\0"):
        assert not ((ROOT / name).is_file() and marked.search((ROOT / name).read_bytes())), name

"""What a project says about how to work on it reaches the model, bounded, and nothing else does."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.git.worktree import TrackedFile, Worktree
from kakite.agent.run import state_machine
from kakite.agent.run.agents_md import (
    FILE_NAMES,
    MAX_FILE_BYTES,
    MAX_NESTED_FILES,
    MAX_TOTAL_BYTES,
    decode_text,
    load_agents_md,
)
from kakite.agent.run.state import ProjectInstruction, RunState
from kakite.models.messages import UserMessage
from tests.agent.test_runner import command, run_of
from tests.agent.test_state_machine import task
from tests.repositories import git, make_remote

pytestmark = pytest.mark.anyio


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def told(run: RunState) -> str:
    return "\n".join(message.text for message in run.messages if isinstance(message, UserMessage))


@pytest.mark.slow
async def test_the_rules_of_a_project_are_given_to_the_model_before_its_first_word(place: Path) -> None:
    files = {
        "a": "1\n",
        "AGENTS.md": "Tabs, never blanks.\n",
        ".github/copilot-instructions.md": "日本語で書くこと。\n",
        "docs/deep/AGENTS.md": "Deep.\n",
        "CLAUDE.md": "Tabs, never blanks.\n",
    }
    run = await run_of(place, make_remote(place, files), command("echo 2 > a"))
    assert [rule.path for rule in run.rules] == ["AGENTS.md", ".github/copilot-instructions.md"]
    second = run.messages[1]
    assert isinstance(second, UserMessage)
    for text in ("Tabs, never blanks.", "日本語で書くこと。", "`docs/deep/AGENTS.md`", "rank below the task"):
        assert text in second.text
    assert "Deep." not in told(run)


@pytest.mark.slow
async def test_no_link_of_a_repository_brings_a_file_from_outside(place: Path) -> None:
    secret = place / "secret"
    secret.write_text("the secret", encoding="utf-8")
    work = place / "work"
    work.mkdir()
    (work / "a").write_text("1\n", encoding="utf-8")
    (work / "AGENTS.md").symlink_to(secret)
    (work / "CLAUDE.md").symlink_to("docs/rules.md")
    (work / "docs").mkdir()
    (work / "docs/rules.md").write_text("Our rules.", encoding="utf-8")
    git(work, "init", "--quiet")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=First")
    git(place, "clone", "--quiet", "--bare", str(work), "remote.git")
    run = await run_of(place, place / "remote.git", command("echo 2 > a"))
    assert run.rules == (ProjectInstruction(path="CLAUDE.md", text="Our rules."),)
    assert "the secret" not in told(run)


@given(st.text(), st.integers(0, 50))
def test_a_text_is_cut_between_two_characters_and_that_is_said(text: str, most: int) -> None:
    data = text.encode("utf-8", "ignore")
    kept = decode_text(data, most)
    if len(data) <= most and "\0" not in text and not text.startswith("\ufeff"):
        assert kept == data.decode()
    head, cut, _ = kept.partition("\n… the rest")
    assert not cut or data.startswith(head.encode()) or text.startswith("\ufeff")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", b""])
def test_what_is_no_text_is_no_rule(data: bytes) -> None:
    assert decode_text(data, MAX_FILE_BYTES) == ""


class Tree:
    """What a commit holds: paths to modes and bytes."""

    def __init__(self, files: Mapping[str, tuple[str, bytes]]) -> None:
        self._files = files

    async def list_tracked_files(self, *patterns: str) -> tuple[TrackedFile, ...]:
        names = [pattern.partition(")")[2] for pattern in patterns]
        assert not any(name.startswith(("/", "..")) for name in names)  # git would refuse it
        return tuple(
            TrackedFile(mode=mode, blob=data.hex(), path=path)
            for path, (mode, data) in sorted(self._files.items())
            if any(fnmatchcase(path, name.replace("**/", "*")) for name in names)
        )

    async def read_blob(self, name: str, most: int) -> bytes:
        return bytes.fromhex(name)[:most]


FILE, LINK, MODULE = "100644", "120000", "160000"


async def rules_of(files: Mapping[str, tuple[str, bytes]]) -> tuple[dict[str, str], tuple[str, ...]]:
    found, deeper = await load_agents_md(cast("Worktree", Tree(files)))
    return {rule.path: rule.text for rule in found}, deeper


async def test_each_file_of_rules_is_cut_and_so_are_all_together() -> None:
    long = {name: (FILE, name.encode() * MAX_FILE_BYTES) for name in FILE_NAMES}
    found, _ = await rules_of(long)
    assert [len(text.partition("\n…")[0]) for text in found.values()] == [MAX_FILE_BYTES, MAX_FILE_BYTES - 1]
    assert all("too long" in text for text in found.values())
    assert (MAX_FILE_BYTES, MAX_TOTAL_BYTES) == (32 * 1024, 64 * 1024)


async def test_the_same_rules_are_given_once() -> None:
    found, _ = await rules_of({"CLAUDE.md": (FILE, b"x"), "AGENTS.md": (FILE, b"x")})
    assert found == {"AGENTS.md": "x"}
    found, _ = await rules_of({name: (FILE, name.encode()) for name in FILE_NAMES})
    assert list(found) == list(FILE_NAMES)


@pytest.mark.parametrize(
    ("target", "mode", "text"),
    [
        (b"docs/rules.md", FILE, "R"),
        (b"./docs/../docs/rules.md", FILE, "R"),
        (b"docs/rules.md", LINK, ""),
        (b"docs/rules.md", MODULE, ""),
        (b"docs", FILE, ""),
        (b"../docs/rules.md", FILE, ""),
        (b"/docs/rules.md", FILE, ""),
        (b"nowhere", FILE, ""),
        (b"\xff", FILE, ""),
        (b"", FILE, ""),
    ],
)
async def test_a_link_counts_if_it_names_a_file_of_the_commit(target: bytes, mode: str, text: str) -> None:
    found, _ = await rules_of({"AGENTS.md": (LINK, target), "docs/rules.md": (mode, b"R")})
    assert found.get("AGENTS.md", "") == text


async def test_rules_of_folders_are_named_up_to_a_number() -> None:
    files = {f"d{number:03}/AGENTS.md": (FILE, b"x") for number in range(MAX_NESTED_FILES + 9)}
    found, deeper = await rules_of({**files, "a`b/AGENTS.md": (FILE, b"x")})
    assert (found, len(deeper), deeper[0]) == ({}, MAX_NESTED_FILES, "d000/AGENTS.md")


def test_rules_are_given_once() -> None:
    run = state_machine.add_project_instructions(
        state_machine.create_run_state(task(), "base"), (ProjectInstruction(path="AGENTS.md", text="x"),)
    )
    assert not state_machine.can_add_instructions(run)


def test_a_project_without_rules_tells_the_model_nothing_of_them() -> None:
    run = state_machine.create_run_state(task(), "base")
    assert state_machine.add_project_instructions(run, ()) == run
    assert state_machine.can_add_instructions(run)

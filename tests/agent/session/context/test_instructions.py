"""AGENTS.md: the person's, the project's, those of folders below, and what they import."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from kakite.agent.session.context import (
    Instructions,
    find_nested,
    format_instructions,
    load_instructions,
    open_project,
)
from kakite.agent.session.context.instructions import MAX_IMPORT_DEPTH
from tests.agent.session.context.places import OUTSIDE, Content, make_places


def load(
    files: Mapping[str, Content], *, folder: str = ".", home: Mapping[str, Content] | None = None
) -> Instructions:
    with make_places(files, folder=folder, home=home) as places:
        return load_instructions(places.project, places.person)


def paths(found: Instructions) -> list[str]:
    return [file.path for file in found.files]


def test_the_persons_come_first_then_the_projects_from_its_root_down() -> None:
    files = {
        "AGENTS.md": "Root.",
        "a/CLAUDE.md": "A.",
        "a/b/AGENTS.md": "B.",
        "a/b/c/AGENTS.md": "C.",
        "z/AGENTS.md": "Z.",
    }
    home = {".config/kakite/AGENTS.md": "Mine.", ".agents/AGENTS.md": "Mine too."}
    found = load(files, folder="a/b", home=home)
    assert [(file.path, file.text, file.origin) for file in found.files] == [
        ("~/.config/kakite/AGENTS.md", "Mine.", "user"),
        ("~/.agents/AGENTS.md", "Mine too.", "user"),
        ("../../AGENTS.md", "Root.", "project"),
        ("../CLAUDE.md", "A.", "project"),
        ("AGENTS.md", "B.", "project"),
    ]
    assert found.nested == ("c/AGENTS.md",)
    assert '<file path="../CLAUDE.md">\nA.\n</file>' in format_instructions(found.files)


def test_without_a_repository_only_the_sessions_folder_counts() -> None:
    with make_places({"AGENTS.md": "Above.", "a/AGENTS.md": "Here."}, folder="a", git=False) as places:
        assert paths(load_instructions(places.project, places.person)) == ["AGENTS.md"]


def test_in_a_folder_agents_md_counts_before_claude_md() -> None:
    assert paths(load({"AGENTS.md": "A.", "CLAUDE.md": "C."})) == ["AGENTS.md"]
    assert paths(load({"AGENTS.md": "->CLAUDE.md", "CLAUDE.md": "C."})) == ["AGENTS.md"]


def test_those_of_folders_below_are_given_when_something_there_is_touched() -> None:
    files = {
        "AGENTS.md": "R.",
        "a/AGENTS.md": "A. @x.md",
        "a/x.md": "X.",
        "a/b/CLAUDE.md": "B.",
        "c/AGENTS.md": "C.",
    }
    with make_places(files, folder="c") as places:
        assert paths(find_nested("../a/b/new/file.py", places.project)) == [
            "../a/AGENTS.md",
            "../a/x.md",
            "../a/b/CLAUDE.md",
        ]
        assert paths(find_nested(str(places.root / "a/f.py"), places.project)) == [
            "../a/AGENTS.md",
            "../a/x.md",
        ]
        for told in ("f.py", "../f.py", "../../f.py", "/etc/passwd"):
            assert find_nested(told, places.project) == Instructions()


def test_what_git_ignores_is_not_listed_below() -> None:
    files = {".gitignore": "build\n", "build/AGENTS.md": "B.", "a/AGENTS.md": "A.", "a/CLAUDE.md": "A."}
    assert load(files).nested == ("a/AGENTS.md",)


def test_imports_follow_the_file_that_names_them() -> None:
    found = load(
        {
            "CLAUDE.md": "@docs/rules.md, and `@docs/code.md`.\n```\n@docs/fence.md\n```\nMail me@x.org @me",
            "docs/rules.md": "See @more.md and @../CLAUDE.md",
            "docs/more.md": "More.",
            "docs/code.md": "Code.",
            "docs/fence.md": "Fence.",
        }
    )
    assert paths(found) == ["CLAUDE.md", "docs/rules.md", "docs/more.md"]
    assert not found.problems


def test_imports_end_at_a_depth_and_it_is_told() -> None:
    files = {f"i{number}.md": f"@i{number + 1}.md" for number in range(MAX_IMPORT_DEPTH + 3)}
    found = load({"AGENTS.md": "@i0.md", **files})
    assert paths(found) == ["AGENTS.md", *(f"i{number}.md" for number in range(MAX_IMPORT_DEPTH))]
    assert [(problem.path, problem.line) for problem in found.problems] == [
        (f"i{MAX_IMPORT_DEPTH - 1}.md", 1)
    ]


@pytest.mark.parametrize("target", ["../../outside/file.md", "~/mine.md", "docs/none.md", ".env", "link.md"])
def test_an_import_that_may_not_be_is_told_with_its_line(target: str) -> None:
    files: dict[str, Content] = {
        "a/AGENTS.md": f"First.\n@{target} is it.",
        "a/.env": "KEY=1",
        "a/link.md": "->.env",
    }
    found = load(files, folder="a", home={"mine.md": "Mine."})
    assert paths(found) == ["AGENTS.md"]
    assert len(found.problems) == 1
    assert OUTSIDE not in repr(found)
    assert "KEY" not in repr(found)


def test_a_file_that_is_no_text_is_told_and_left_out() -> None:
    found = load({"AGENTS.md": b"\xff\0", "a/AGENTS.md": "A."}, folder="a")
    assert paths(found) == ["AGENTS.md"]
    assert [problem.path for problem in found.problems] == ["../AGENTS.md"]


def test_the_persons_links_are_theirs() -> None:
    found = load({}, home={"dotfiles/rules.md": "Mine.", ".agents/AGENTS.md": "->../dotfiles/rules.md"})
    assert [file.text for file in found.files] == ["Mine."]


def test_what_is_no_regular_file_keeps_nobody_waiting() -> None:
    with make_places({"a/x": ""}, folder="a") as places:
        (places.person.home / ".agents/AGENTS.md").mkdir(parents=True)
        places.person.kakite.mkdir(parents=True)
        os.mkfifo(places.person.kakite / "AGENTS.md")
        os.mkfifo(places.root / "a/AGENTS.md")
        (places.root / "AGENTS.md").mkdir()
        (places.root / "CLAUDE.md").write_text("Rules.", encoding="utf-8")
        found = load_instructions(places.project, places.person)
        assert paths(found) == ["../CLAUDE.md"]
        assert [problem.path for problem in found.problems] == ["AGENTS.md"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize(("owner", "told"), [(0, ["../AGENTS.md", "AGENTS.md"]), (12345, ["AGENTS.md"])])
def test_a_repository_that_a_stranger_put_around_a_folder_is_none(owner: int, told: list[str]) -> None:
    with make_places({"AGENTS.md": "Above.", "a/AGENTS.md": "Mine."}, folder="a") as places:
        os.chown(places.root / ".git", owner, owner)
        project = open_project(places.root / "a", {"HOME": str(places.person.home)})
        assert paths(load_instructions(project, places.person)) == told
        project.workspace.close()

"""Skills: what a prompt lists of them, and what is read when one is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.session.context import (
    ContextProblem,
    Skill,
    format_skill_list,
    load_skills,
    read_skill,
)
from kakite.workspace import WorkspaceError
from tests.agent.session.context.places import Content, make_places


def skill(name: str, description: str = "Does it.", more: str = "", body: str = "Steps.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def load(
    files: Mapping[str, Content], *, folder: str = ".", home: Mapping[str, Content] | None = None
) -> tuple[dict[str, Skill], tuple[ContextProblem, ...]]:
    with make_places(files, folder=folder, home=home) as places:
        skills, problems = load_skills(places.project, places.person)
        return {each.name: each for each in skills}, problems


def test_skills_of_the_project_and_the_person_are_found() -> None:
    found, problems = load(
        {".agents/skills/one/SKILL.md": skill("one"), "a/.claude/skills/two/SKILL.md": skill("two")},
        folder="a",
        home={
            ".agents/skills/three/SKILL.md": skill("three"),
            ".claude/skills/four/SKILL.md": skill("four"),
            ".config/kakite/skills/five/SKILL.md": skill("five"),
            ".agents/skills/README.md": "No skill.",
        },
    )
    assert {each.path: each.origin for each in found.values()} == {
        "../.agents/skills/one/SKILL.md": "project",
        ".claude/skills/two/SKILL.md": "project",
        "~/.agents/skills/three/SKILL.md": "user",
        "~/.claude/skills/four/SKILL.md": "user",
        "~/.config/kakite/skills/five/SKILL.md": "user",
    }
    assert not problems


def test_of_one_name_the_nearest_counts_and_the_others_are_told() -> None:
    found, problems = load(
        {
            ".agents/skills/x/SKILL.md": skill("x", "Root."),
            "a/.agents/skills/x/SKILL.md": skill("x", "Near."),
            "a/.claude/skills/x/SKILL.md": skill("x", "Claude's."),
        },
        folder="a",
        home={".agents/skills/x/SKILL.md": skill("x", "Mine.")},
    )
    assert found["x"].description == "Near."
    assert [problem.path for problem in problems] == [
        ".claude/skills/x/SKILL.md",
        "../.agents/skills/x/SKILL.md",
        "~/.agents/skills/x/SKILL.md",
    ]


def test_one_folder_under_two_names_is_one_skill() -> None:
    found, problems = load({".agents/skills/x/SKILL.md": skill("x"), ".claude/skills": "->../.agents/skills"})
    assert (list(found), problems) == (["x"], ())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("No front matter.", 1),
        ("---\nname: x\n---\nNo description.", 1),
        ("---\nname: x\ndescription: a\nb: [\n---\n", 5),
        ("---\nname: x\ndescription: a\n", 1),
        ("---\nname: x\nname: x\ndescription: a\n---\n", 3),
    ],
)
def test_a_broken_skill_is_told_with_its_line_and_left_out(text: str, line: int) -> None:
    found, problems = load({".agents/skills/x/SKILL.md": text, ".agents/skills/y/SKILL.md": skill("y")})
    assert list(found) == ["y"]
    assert [(problem.path, problem.line) for problem in problems] == [(".agents/skills/x/SKILL.md", line)]


@pytest.mark.parametrize(
    ("folder", "name", "found_as"),
    [
        ("pdf", "pdf-tools", "pdf-tools"),
        ("pdf", "PDF", "pdf"),
        ("pdf", "-pdf", "pdf"),
        ("pdf", "a--b", "pdf"),
        ("pdf", "x" * 65, "pdf"),
        ("pdf", "''", "pdf"),
        ("PDF", "PDF", None),
        ("a b", "a b", None),
    ],
)
def test_a_name_that_is_not_by_the_rules_gives_way_to_that_of_the_folder(
    folder: str, name: str, found_as: str | None
) -> None:
    found, problems = load({f".agents/skills/{folder}/SKILL.md": skill(name)})
    assert list(found) == ([found_as] if found_as else [])
    assert problems


def test_what_other_programs_accept_is_read() -> None:
    found, _ = load({".agents/skills/x/SKILL.md": skill("x", "Use it when: a PDF comes")})
    assert found["x"].description == "Use it when: a PDF comes"


def test_what_a_skill_says_of_tools_is_carried_and_one_may_be_the_persons_alone() -> None:
    more = "allowed-tools: Bash(git:*) Read\nlicense: MIT\ndisable-model-invocation: true\n"
    found, _ = load({".agents/skills/x/SKILL.md": skill("x", more=more)})
    assert found["x"].fields["allowed-tools"] == "Bash(git:*) Read"
    assert found["x"].fields["license"] == "MIT"
    assert format_skill_list(found.values()) == ""


def test_a_skill_is_read_with_what_its_folder_has() -> None:
    files = {
        ".agents/skills/x/SKILL.md": skill("x", body="Do this."),
        ".agents/skills/x/references/more.md": "More.",
        ".agents/skills/x/out": "->../../../../outside/file.md",
        ".agents/skills/x/.env": "KEY=1",
        "secret.md": "Not of the skill.",
    }
    with make_places(
        files, home={".claude/skills/y": "->../../kept/y", "kept/y/SKILL.md": skill("y")}
    ) as places:
        skills = {each.name: each for each in load_skills(places.project, places.person)[0]}
        text = read_skill(skills["x"])
        assert text.startswith("Do this.\n")
        assert "references/more.md" in text
        assert str(places.root / ".agents/skills/x") in text
        assert read_skill(skills["x"], "references/more.md") == "More."
        assert read_skill(skills["y"]).startswith("Steps.")
        for name, code in {
            "../../../secret.md": "path_escapes",
            "out": "path_escapes",
            ".env": "no_permission",
            "none.md": "file_not_found",
        }.items():
            with pytest.raises(WorkspaceError) as refused:
                read_skill(skills["x"], name)
            assert refused.value.code == code


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 1024)), max_size=60),
    st.integers(200, 12_000),
)
def test_the_list_keeps_to_its_size_and_each_skill_is_in_it_or_counted(
    sizes: list[tuple[int, int]], most: int
) -> None:
    skills = [make_skill(f"{number}-" + "n" * size, "d" * long) for number, (size, long) in enumerate(sizes)]
    text = format_skill_list(skills, most=most)
    assert len(text) <= most
    lines = text.splitlines()
    listed = [line for line in lines if line.startswith("- ") and " (" in line]
    told = [int(line.split()[3]) for line in lines if line not in listed]
    assert len(listed) + sum(told) == len(skills)


def make_skill(name: str, description: str) -> Skill:
    return Skill(
        name=name, description=description, path=f"{name}/SKILL.md", origin="user", folder="/x", root="/x"
    )


def test_the_list_has_a_line_for_each_skill() -> None:
    found, _ = load({".agents/skills/x/SKILL.md": skill("x", "|\n  Two\n  lines.")})
    assert format_skill_list(found.values()) == "- x (.agents/skills/x/SKILL.md): Two lines.\n"
    assert format_skill_list([]) == ""


def test_a_file_of_nobody_is_no_skill(tmp_path: Path) -> None:
    with make_places() as places:
        (places.root / ".agents/skills/x").mkdir(parents=True)
        (places.root / ".agents/skills/y").write_text("a file", encoding="utf-8")
        assert load_skills(places.project, places.person) == ((), ())

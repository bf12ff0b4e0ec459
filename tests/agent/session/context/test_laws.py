"""Whatever a project holds: its context is read without errors, and nothing from elsewhere is."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.front_matter import FrontMatterError
from kakite.agent.session.context import (
    Skill,
    expand_mentions,
    find_nested,
    format_skill_list,
    list_paths,
    load_commands,
    load_instructions,
    load_skills,
    read_skill,
)
from kakite.agent.session.context.documents import MarkdownDocument, parse_markdown
from kakite.workspace import WorkspaceError
from tests.agent.session.context.places import OUTSIDE, Content, Places, make_places

LINES = [
    "---",
    "--- ",
    "name: a",
    "name: 'x",
    "description: when: now",
    "description: [a, b]",
    "argument-hint: [file] [mode]",
    "a: &a [*a, *a]",
    "<<: *a",
    "\t- : x",
    "{",
    "@b.md @sub/AGENTS.md @../x",
    "`@b.md`",
    "```",
    "!`date` $1 $ARGUMENTS",
    "é\u2028\x85",
    "",
]
TEXTS = st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=8)), max_size=8).map("\n".join)
NAMES = [
    "AGENTS.md",
    "CLAUDE.md",
    "b.md",
    "sub/AGENTS.md",
    "sub/deep/CLAUDE.md",
    ".agents/skills/a/SKILL.md",
    ".claude/skills/b/SKILL.md",
    ".claude/skills/b/more.md",
    ".agents/commands/git/commit.md",
    ".opencode/command/x.md",
]
FOLDERS = ["sub", "sub/deep", ".agents", ".agents/skills", ".claude/skills/b", ".claude/commands", "else"]
TARGETS = [
    "{base}/outside",
    "{base}/outside/file.md",
    "{base}/outside/skills/stolen",
    "../outside",
    "../../outside",
    "../../../outside/skills",
    "../../../../outside/file.md",
    "../outside/file.md",
    "else",
    "b.md",
    "..",
    "/",
    "{base}",
]
BYTES = st.one_of(TEXTS.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=30))


def read_all(places: Places, message: str) -> str:
    """Return all that a session could be given here."""
    project, person = places.project, places.person
    skills, skill_problems = load_skills(project, person)
    commands, command_problems = load_commands(project, person)
    read: list[object] = [
        load_instructions(project, person),
        *(find_nested(path, project) for path in (*NAMES, *FOLDERS, "../x", "/etc/x", "\0")),
        skills,
        commands,
        list_paths(project),
        format_skill_list(skills),
        expand_mentions(message, project),
        expand_mentions(message, project, typed=""),
        *(str(problem) for problem in (*skill_problems, *command_problems)),
    ]
    for skill in skills:
        names = ("SKILL.md", "more.md", "../b.md", "/etc/hostname")
        read.extend(read_skill_or_refuse(skill, name) for name in names)
    return repr(read)


def read_skill_or_refuse(skill: Skill, name: str) -> str:
    try:
        return read_skill(skill, name)
    except WorkspaceError as error:
        return error.code


@given(TEXTS)
def test_a_document_is_read_or_refused_with_its_line(text: str) -> None:
    found = parse_or_get_line(text)
    if isinstance(found, int):
        assert 1 <= found <= text.count("\n") + 1
    elif found.body:
        assert text.endswith(found.body)
        assert found.body_line == text.count("\n", 0, len(text) - len(found.body)) + 1


def parse_or_get_line(text: str) -> MarkdownDocument | int:
    try:
        return parse_markdown(text)
    except FrontMatterError as error:
        return error.line


@given(st.dictionaries(st.sampled_from(NAMES), BYTES, max_size=6), st.text(max_size=40))
def test_whatever_the_files_hold_all_is_read(files: dict[str, Content], message: str) -> None:
    with make_places(files, home=files) as places:
        assert read_all(places, message + " @b.md @sub")


@given(
    st.dictionaries(st.sampled_from([*NAMES, *FOLDERS]), st.sampled_from(TARGETS), max_size=5),
    st.lists(st.sampled_from([*NAMES, *FOLDERS]), max_size=5),
)
def test_nothing_outside_of_the_project_is_read_whatever_links_there_are(
    links: dict[str, str], named: list[str]
) -> None:
    with make_places() as places:
        base = places.root.parent
        link(places, ((name, target.format(base=base)) for name, target in links.items()))
        message = " ".join(
            f"@{name} @{name}/file.md @{name}/skills/stolen/SKILL.md @{base}/outside/file.md"
            for name in named
        )
        assert OUTSIDE not in read_all(places, message)


def link(places: Places, links: Iterable[tuple[str, str]]) -> None:
    """Make the links that can be made: one may already be in another's way."""
    for name, target in links:
        path = places.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(path.parent).startswith(str(places.root)):
                path.symlink_to(target)
        except OSError:
            continue


def test_the_files_outside_can_be_read_by_whoever_works_there() -> None:
    with make_places(
        {".claude/skills": "->../elsewhere", "elsewhere/a": "->../../outside/skills/stolen"}
    ) as places:
        assert (places.root.parent / "outside/file.md").read_text(encoding="utf-8") == OUTSIDE
        (skills, problems) = load_skills(places.project, places.person)
        assert not skills
        assert [problem.path for problem in problems] == [".claude/skills/a/SKILL.md"]

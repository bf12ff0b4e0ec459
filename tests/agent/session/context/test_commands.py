"""Commands from files: what they are called, what becomes of their arguments, and what is not run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.session.context import (
    ContextProblem,
    SlashCommand,
    expand_command,
    expand_mentions,
    load_commands,
)
from tests.agent.session.context.places import Content, make_places


def load(
    files: Mapping[str, Content], *, folder: str = ".", home: Mapping[str, Content] | None = None
) -> tuple[dict[str, SlashCommand], tuple[ContextProblem, ...]]:
    with make_places(files, folder=folder, home=home) as places:
        commands, problems = load_commands(places.project, places.person)
        return {each.name: each for each in commands}, problems


def command(body: str) -> SlashCommand:
    return SlashCommand(name="x", description="", argument_hint="", body=body, path="x.md", origin="project")


def test_commands_are_named_by_their_paths() -> None:
    found, problems = load(
        {
            ".agents/commands/git/commit.md": "Commit.",
            ".claude/commands/review.md": "Review.",
            ".opencode/command/test.md": "Test.",
            "a/.opencode/commands/deep/er/fix.md": "Fix.",
            ".claude/commands/notes.txt": "No command.",
        },
        folder="a",
        home={
            ".config/kakite/commands/mine.md": "Mine.",
            ".config/opencode/commands/other.md": "Other.",
            ".claude/commands/review.md": "My review.",
        },
    )
    assert list(found) == ["deep:er:fix", "git:commit", "mine", "other", "review", "test"]
    assert found["review"].body == "Review."
    assert [problem.path for problem in problems] == ["~/.claude/commands/review.md"]


def test_front_matter_describes_a_command() -> None:
    found, _ = load(
        {
            ".claude/commands/a.md": "---\ndescription: Fix: it\nargument-hint: [file] [mode]\n---\n\nDo it.",
            ".claude/commands/b.md": "# Look at it\n\nLook.",
        }
    )
    assert (found["a"].description, found["a"].argument_hint, found["a"].body) == (
        "Fix: it",
        "[file] [mode]",
        "Do it.",
    )
    assert found["b"].description == "Look at it"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("x.md", "---\na: [\n---\nBody", 3), ("x.md", "---\na: b\n---\n", 0), ("a b.md", "Body", 0)],
)
def test_a_broken_command_is_told_and_left_out(name: str, text: str, line: int) -> None:
    found, problems = load({f".agents/commands/{name}": text, ".agents/commands/y.md": "Body"})
    assert list(found) == ["y"]
    assert [(problem.path, problem.line) for problem in problems] == [(f".agents/commands/{name}", line)]


def test_lines_for_a_shell_stay_text_and_are_told() -> None:
    text = "---\ndescription: d\n---\nStatus:\n!`touch ran`\n\n```!\ntouch ran\n```\n"
    with make_places({".claude/commands/x.md": text}) as places:
        (found,), problems = load_commands(places.project, places.person)
        assert "!`touch ran`" in expand_command(found, "")
        assert [problem.line for problem in problems] == [5, 7]
        assert not (places.root / "ran").exists()


@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        ("Fix $1 in $2.", "'the bug' src/a.py", "Fix the bug in src/a.py."),
        ("Fix $ARGUMENTS!", "  it now ", "Fix it now!"),
        ("$1 and $2", "one", "one and "),
        ("$1を直す", "a.py", "a.pyを直す"),
        ("It costs $10 or $1x, $ARGUMENTSX.", "", "It costs $10 or $1x, $ARGUMENTSX."),
        ("Fix it.", "now", "Fix it.\n\nnow"),
        ("$1", "don't stop", "don't"),
        ("$1", "'$2' x", "$2"),
    ],
)
def test_arguments_stand_where_the_command_wants_them(body: str, arguments: str, message: str) -> None:
    assert expand_command(command(body), arguments) == message


@given(st.text(), st.text())
def test_all_arguments_are_given_as_they_were_written(body: str, arguments: str) -> None:
    whole = expand_command(command(body), arguments)
    if "$" not in body:
        assert whole == (f"{body}\n\n{arguments.strip()}" if arguments.strip() else body)
    assert expand_command(command("<$ARGUMENTS>"), arguments) == f"<{arguments.strip()}>"


def test_files_are_named_in_a_command_as_in_a_message_but_secrets_only_by_the_person() -> None:
    files = {
        ".gitignore": "local/\n",
        "a.py": "A\n",
        ".env": "KEY=1\n",
        "local/x.txt": "LOCAL\n",
        "l.txt": "->.env",
    }
    body = command("See @a.py @.env @local/x.txt @l.txt and @$1")
    with make_places(files) as places:
        shown = expand_mentions(expand_command(body, "none"), places.project, typed="none")
        assert [mention.path for mention in shown.mentions] == ["a.py"]
        assert [problem.path for problem in shown.problems] == [".env", "local/x.txt", "l.txt"]
        shown = expand_mentions(expand_command(command("See @$1"), ".env"), places.project, typed=".env")
        assert [mention.text for mention in shown.mentions] == ["KEY=1\n"]

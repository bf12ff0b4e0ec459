"""What a message names with ``@``: what is shown of it, and what is no mention."""

from __future__ import annotations

import base64

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.agent.session.context import ContextProblem, ExpandedMessage, build_image, expand_mentions
from kakite.agent.session.context.mention_syntax import LineRange, format_mention
from kakite.agent.session.context.mentions import MAX_FILE_CHARACTERS, MAX_TOTAL_CHARACTERS
from kakite.tools.toolset import Image
from tests.agent.session.context.places import make_places

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20
FILES = {
    "src/a.py": "1\n2\n3\n4\n",
    "a b.txt": "blank\n",
    "日本.md": "text\n",
    "src/shot.dat": PNG,
    "bin": b"\0\1\2",
    ".env": "KEY=1\n",
    ".gitignore": "local\n",
    "local/x": "X\n",
    "odd#L2": "odd\n",
    "marks.txt": "a\u2028b\x0cc\nd\n",
}


def expand(text: str, *, folder: str = ".") -> ExpandedMessage:
    with make_places(FILES, folder=folder) as places:
        return expand_mentions(text, places.project)


def shown(message: ExpandedMessage) -> list[tuple[str, str]]:
    return [(mention.path, mention.text) for mention in message.mentions]


@pytest.mark.parametrize(
    ("text", "path", "content", "lines"),
    [
        ("@src/a.py", "src/a.py", "1\n2\n3\n4\n", None),
        ("See @src/a.py, please.", "src/a.py", "1\n2\n3\n4\n", None),
        ("(@src/a.py)?", "src/a.py", "1\n2\n3\n4\n", None),
        ("@./src/../src/a.py", "src/a.py", "1\n2\n3\n4\n", None),
        ("@src/a.py#L2-3", "src/a.py", "2\n3\n", LineRange(2, 3)),
        ("@src/a.py#L2-L3.", "src/a.py", "2\n3\n", LineRange(2, 3)),
        ("@src/a.py#L4", "src/a.py", "4\n", LineRange(4, 4)),
        ("@src/a.py#L3-99", "src/a.py", "3\n4\n", LineRange(3, 4)),
        ('@"a b.txt" now', "a b.txt", "blank\n", None),
        ('@"src/a.py"#L1', "src/a.py", "1\n", LineRange(1, 1)),
        ("@日本.md", "日本.md", "text\n", None),
        ("@src/a.pyを直す", "src/a.py", "1\n2\n3\n4\n", None),
        ("@odd#L2", "odd#L2", "odd\n", None),
        ("@marks.txt#L2", "marks.txt", "d\n", LineRange(2, 2)),
        ("@.env", ".env", "KEY=1\n", None),
        ("@local/x", "local/x", "X\n", None),
    ],
)
def test_a_file_is_shown(text: str, path: str, content: str, lines: LineRange | None) -> None:
    message = expand(text)
    (mention,) = message.mentions
    assert (mention.path, mention.text, mention.lines, mention.kind) == (path, content, lines, "file")
    assert message.to_prompt().startswith(text)
    assert text[mention.start] == "@"
    assert not message.problems


def test_paths_begin_at_the_sessions_folder_and_end_at_the_projects_root() -> None:
    message = expand("@a.py @../.env @../../outside/file.md", folder="src")
    assert [path for path, _ in shown(message)] == ["a.py", "../.env"]
    assert [problem.path for problem in message.problems] == ["../../outside/file.md"]


def test_the_model_is_told_path_and_lines() -> None:
    assert expand("Fix @src/a.py#L2-3").to_prompt() == (
        'Fix @src/a.py#L2-3\n\n<file path="src/a.py" lines="2-3">\n2\n3\n</file>'
    )


def test_a_folder_is_listed_without_what_git_ignores() -> None:
    message = expand("@src and @./")
    assert shown(message)[0] == ("src", "a.py\nshot.dat\n")
    (_, here) = shown(message)[1]
    assert "src/\nsrc/a.py" in here
    assert "local" not in here


@pytest.mark.parametrize(
    "text",
    [
        "me@example.org",
        "@dataclass\nclass A: ...",
        "@pytest.mark.slow\ndef test(): ...",
        "@app.route('/x')",
        "@",
        "@@",
        "@ src/a.py",
        "@.",
        "x@src/a.py",
        "@everyone, look!",
        r"\@src/a.py",
    ],
)
def test_what_names_no_file_stays_text(text: str) -> None:
    message = expand(text)
    assert (message.mentions, message.problems, message.to_prompt()) == ((), (), text)


@pytest.mark.parametrize(
    "text",
    ["@src/none.py", "@none.py", "see @none.py.", '@"no file"', "@src/a.py#L9", "@bin", "@/etc/passwd"],
)
def test_what_cannot_be_shown_is_told(text: str) -> None:
    message = expand(text)
    assert not message.mentions
    assert len(message.problems) == 1


def test_a_file_named_twice_is_shown_once() -> None:
    message = expand("@src/a.py @./src/a.py @src/a.py#L1")
    assert shown(message) == [("src/a.py", "1\n2\n3\n4\n"), ("src/a.py", "1\n")]


def test_a_picture_is_told_by_its_bytes() -> None:
    message = expand("Look: @src/shot.dat")
    assert message.images == (Image(mime="image/png", data=base64.b64encode(PNG).decode()),)
    assert message.mentions[0].kind == "image"


@pytest.mark.parametrize("data", [b"", b"BM", b"<svg/>", PNG + b"x" * 4_000_000])
def test_a_picture_that_models_do_not_take_is_told(data: bytes) -> None:
    assert isinstance(build_image(data, "pasted"), ContextProblem)


def test_long_files_are_cut_at_a_line_and_so_are_all_together() -> None:
    line = "x" * 99 + "\n"
    files = {f"f{number}.txt": line * 700 for number in range(6)}
    with make_places(files) as places:
        message = expand_mentions(" ".join(f"@{name}" for name in files), places.project)
    sizes = [len(mention.text) for mention in message.mentions]
    assert all(mention.is_cut and mention.text.endswith(line) for mention in message.mentions if mention.text)
    assert max(sizes) == MAX_FILE_CHARACTERS
    assert sum(sizes) == MAX_TOTAL_CHARACTERS


@given(st.text(st.characters(exclude_characters="@")))
def test_a_message_without_mentions_stays_as_it_is(text: str) -> None:
    assert expand(text).to_prompt() == text


@given(
    st.lists(
        st.sampled_from(
            ["@", '"', "src/a.py", "#L", "1", "-", "\\", " ", "\n", ".", "日本", "\ud800", "\0", "/", "~"]
        )
    )
)
def test_no_message_raises_and_each_stays_whole(pieces: list[str]) -> None:
    text = "".join(pieces)
    message = expand(text)
    assert message.to_prompt().startswith(text)
    assert all(text[each.start] == "@" and each.start < each.end <= len(text) for each in message.mentions)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=30),
    st.sampled_from(["", " ", " and more", "\n", "."]),
)
def test_a_path_as_it_is_written_names_just_that_file(name: str, after: str) -> None:
    assume(name.strip(".") and len(name.encode()) < 200)
    mention = format_mention(name)
    assume(mention.startswith('@"') or not after.startswith("."))
    with make_places({name: "it\n"}) as places:
        message = expand_mentions(f"See {mention}{after}", places.project)
    assert shown(message) == [(name, "it\n")]
    assert not message.problems

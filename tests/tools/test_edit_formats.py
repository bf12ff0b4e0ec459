"""Ways to edit without a quote: lines by anchors, and patches."""

from __future__ import annotations

import re
from pathlib import Path

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from tests.tools.conftest import Desk, lines

from kakite.errors import UsageError
from kakite.serve import build_server
from kakite.tools import SETS, EditorOptions, ToolResult, open_toolset
from kakite.tools.editor.anchors import Anchor, format_anchored_line, hash_line
from kakite.tools.editor.edit_formats import FORMATS, EditFormat, choose_format, resolve_format
from kakite.tools.text_pages import split_lines
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


def desk_for(folder: Path, format_: EditFormat) -> Desk:
    workspace = Workspace([folder])
    return Desk(folder, open_toolset(workspace, SETS, editor=EditorOptions(format=format_)), workspace)


@pytest.fixture
def anchors(tmp_path: Path) -> Desk:
    return desk_for(tmp_path, "anchors")


@pytest.fixture
def patches(tmp_path: Path) -> Desk:
    return desk_for(tmp_path, "patch")


async def shown(desk: Desk, path: str = "x") -> list[str]:
    """Return the anchors of a file, as a view shows them."""
    text = await desk.done("text_editor", command="view", path=path)
    return [line.partition("│")[0] for line in text.splitlines() if "│" in line]


async def edit(desk: Desk, *edits: dict[str, str], preview: bool = False) -> ToolResult:
    return await desk.call("edit_lines", path="x", edits=[*edits], preview=preview)


# anchors


@given(st.text(), st.integers(1, 10**8))
def test_an_anchor_is_read_as_it_is_shown_with_its_line_or_without(text: str, number: int) -> None:
    written = format_anchored_line(number, text, text)
    anchor = Anchor.parse(written)
    assert anchor == Anchor(number, hash_line(text)) == Anchor.parse(str(anchor))
    assert hash_line(text) == hash_line(f"{text.rstrip()} \r\n")


@pytest.mark.parametrize(
    "written", ["", "12", "12:", "12:ab", "12:abcd", ":abc", "-1:abc", "12:ABC", "x:abc"]
)
def test_what_is_no_anchor_is_none(written: str) -> None:
    assert Anchor.parse(written) is None


async def test_lines_are_replaced_deleted_and_inserted_by_anchors(anchors: Desk) -> None:
    anchors.write("x", lines(10).replace(b"line 10\n", b"line 10"))
    at = await shown(anchors)
    assert at == (await anchors.done("read_files", path="x")).replace("│", "\n").split("\n")[::2]
    result = await edit(
        anchors,
        {"first": at[1], "last": at[2], "text": "two\nthree\nand a half"},
        {"first": f"{at[4]}│line 5", "text": ""},
        {"after": at[6], "text": "seven b\n"},
        {"after": "0", "text": "top"},
        {"first": at[9], "text": "ten"},
    )
    assert not result.is_error, result.text
    expected = b"top\nline 1\ntwo\nthree\nand a half\nline 4\nline 6\nline 7\nseven b\nline 8\nline 9\nten"
    assert anchors.read("x") == expected
    told = dict(line.split("│") for line in result.text.splitlines() if "│" in line)
    there = expected.decode().split("\n")
    assert told == {str(Anchor.of(there, number)): there[number - 1] for number in range(1, 13)}


async def test_line_ends_of_the_file_are_kept(anchors: Desk) -> None:
    anchors.write("x", b"one\r\ntwo\r\nthree\r\n")
    at = await shown(anchors)
    await edit(anchors, {"first": at[1], "text": "2\n2b\n"}, {"after": at[2], "text": "four"})
    assert anchors.read("x") == b"one\r\n2\r\n2b\r\nthree\r\nfour\r\n"


@given(
    words=st.lists(st.sampled_from(["a", "}", "", "  b", "long line"]), min_size=1, max_size=12),
    data=st.data(),
)
async def test_an_edit_by_anchors_is_the_edit_of_a_list(
    words: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    desk = desk_for(folder, "anchors")
    desk.write("x", "".join(f"{word}\n" for word in words).encode())
    at = await shown(desk)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    new = data.draw(st.lists(st.sampled_from(["new", "}", "other"]), max_size=3))
    result = await edit(desk, {"first": at[first], "last": at[last], "text": "\n".join(new)})
    assert not result.is_error, result.text
    after = [*words[:first], *new, *words[last + 1 :]]
    assert desk.read("x").decode() == "".join(f"{word}\n" for word in after)
    desk.workspace.close()


async def test_a_line_that_changed_is_refused_with_what_is_there(anchors: Desk) -> None:
    anchors.write("x", lines(10))
    at = await shown(anchors)
    anchors.write("x", lines(10, line_5="line five"))
    result = await edit(anchors, {"first": at[3], "last": at[4], "text": "new"})
    assert result.code == "changed_since_read"
    assert "+line five" in result.text
    assert anchors.read("x") == lines(10, line_5="line five")
    again = await edit(anchors, {"first": at[3], "last": at[4], "text": "new"})
    assert again.code == "anchor_changed"
    fresh = str(Anchor.of(["line five"], 1)).replace("1:", "5:")
    assert fresh in again.text
    assert not (await edit(anchors, {"first": at[3], "last": fresh, "text": "new"})).is_error


async def test_a_change_between_two_anchors_is_refused(anchors: Desk) -> None:
    anchors.write("x", lines(10))
    at = await shown(anchors)
    anchors.write("x", lines(10, line_5="line five"))
    assert (await edit(anchors, {"first": at[2], "last": at[7], "text": "new"})).code == "changed_since_read"


def suggestion(text: str) -> str:
    found = re.search(r'"suggestion": "([0-9a-f]+)"', text)
    assert found, text
    return found[1]


async def test_what_others_changed_beside_is_merged_by_the_suggestion(anchors: Desk) -> None:
    anchors.write("x", lines(10))
    at = await shown(anchors)
    anchors.write("x", lines(10, line_4="theirs"))
    result = await edit(anchors, {"first": at[2], "last": at[5], "text": "line 3\nline 4\nline 5\nmine"})
    assert result.code == "changed_since_read"
    assert "+theirs" in result.text
    assert "+mine" in result.text
    assert "accept the suggestion" in result.text
    await anchors.done("text_editor", command="accept", suggestion=suggestion(result.text))
    assert anchors.read("x") == lines(10, line_4="theirs", line_6="mine")


async def test_where_both_changed_a_line_the_suggestion_is_the_edit_of_the_line_as_it_is(
    anchors: Desk,
) -> None:
    anchors.write("x", lines(10))
    at = await shown(anchors)
    anchors.write("x", lines(10, line_4="theirs\nand more"))
    result = await edit(anchors, {"first": at[3], "text": "mine"}, {"after": at[3], "text": "behind"})
    assert result.code == "changed_since_read"
    await anchors.done("text_editor", command="accept", suggestion=suggestion(result.text))
    assert anchors.read("x") == lines(10, line_4="mine\nbehind")


@given(st.data())
async def test_a_suggestion_by_anchors_keeps_all_other_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    desk = desk_for(tmp_path_factory.mktemp("law"), "anchors")
    desk.write("x", lines(8))
    at = await shown(desk)
    theirs = data.draw(st.integers(1, 8))
    first = data.draw(st.integers(1, theirs))
    last = data.draw(st.integers(theirs, 8))
    desk.write("x", lines(8, **{f"line_{theirs}": data.draw(st.sampled_from(["theirs", "theirs\nmore"]))}))
    result = await edit(desk, {"first": at[first - 1], "last": at[last - 1], "text": "mine"})
    assert result.code == "changed_since_read"
    await desk.done("text_editor", command="accept", suggestion=suggestion(result.text))
    own = lines(8).splitlines(keepends=True)
    assert desk.read("x") == b"".join([*own[: first - 1], b"mine\n", *own[last:]])
    desk.workspace.close()


async def test_an_edit_that_changes_nothing_says_so(anchors: Desk) -> None:
    anchors.write("x", lines(3))
    at = await shown(anchors)
    text = (await edit(anchors, {"first": at[1], "text": "line 2"})).text
    assert text == "Nothing to change: `x` has just these lines already"


async def test_anchors_are_not_written_into_the_file(anchors: Desk) -> None:
    anchors.write("x", lines(3))
    at = await shown(anchors)
    for text in (f"{at[0]}│one\n{at[1]}│two", f"one\n{at[1]}│line 2", f"  {at[2]}│three\n"):
        code, _ = await anchors.refused("edit_lines", path="x", edits=[{"first": at[0], "text": text}])
        assert code == "wrapped"
    assert not (await edit(anchors, {"first": at[0], "text": "a: 1:ab│\n12:00 │"})).is_error


async def test_lines_that_moved_are_followed(anchors: Desk) -> None:
    anchors.write("x", b"a\n}\nb\n}\nc\n}\n")
    at = await shown(anchors)
    anchors.write("x", b"new\n}\na\n}\nb\n}\nc\n}\n")
    result = await edit(anchors, {"first": at[3], "text": "};"}, {"after": at[4], "text": "d"})
    assert not result.is_error, result.text
    assert anchors.read("x") == b"new\n}\na\n}\nb\n};\nc\nd\n}\n"


async def test_anchors_of_another_session_are_followed_by_what_they_say(anchors: Desk) -> None:
    anchors.write("x", lines(10))
    at = await shown(anchors)
    anchors.write("x", b"new\n" + lines(10))
    other = desk_for(anchors.folder, "anchors")
    result = await edit(other, {"first": at[4], "text": "five"})
    assert result.code == "anchor_changed"
    assert str(Anchor.of(["line 5"], 1)).replace("1:", "6:") in result.text
    id_ = result.text.partition('"suggestion": "')[2].partition('"')[0]
    await other.done("text_editor", command="accept", path="x", suggestion=id_)
    assert other.read("x") == b"new\n" + lines(10, line_5="five")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([{"text": "x"}], "bad_arguments"),
        ([{"first": "{1}", "after": "{1}", "text": "x"}], "bad_arguments"),
        ([{"after": "{1}", "last": "{1}", "text": "x"}], "bad_arguments"),
        ([{"first": "2", "text": "x"}], "bad_arguments"),
        ([{"first": "{2}", "last": "{1}", "text": "x"}], "bad_arguments"),
        ([{"first": "{1}", "last": "{3}", "text": "x"}, {"first": "{2}", "text": "y"}], "overlap"),
        ([{"first": "99:abc", "text": "x"}], "anchor_changed"),
        ([], "bad_arguments"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    anchors: Desk, wanted: list[dict[str, str]], code: str
) -> None:
    anchors.write("x", lines(5))
    at = await shown(anchors)
    edits = [{name: value.format(*at) for name, value in each.items()} for each in wanted]
    assert (await anchors.refused("edit_lines", path="x", edits=edits))[0] == code


async def test_a_preview_by_anchors_shows_what_the_edit_makes(anchors: Desk) -> None:
    anchors.write("x", lines(5))
    at = await shown(anchors)
    preview = await edit(anchors, {"first": at[1], "text": "2"}, preview=True)
    assert anchors.read("x") == lines(5)
    done = await edit(anchors, {"first": at[1], "text": "2"})
    assert preview.details["diff"] == done.details["diff"] != ""


def test_anchors_cost_few_characters() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    found = split_lines(source)
    drawn = "\n".join(
        format_anchored_line(number, line, line.rstrip()) for number, line in enumerate(found, 1)
    )
    plain = "\n".join(f"{number}\t{line.rstrip()}" for number, line in enumerate(found, 1))
    assert len(drawn) <= len(plain) + 4 * len(found)


# patches

PATCH = """*** Begin Patch
*** Update File: x
@@
 line 1
-line 2
+line two
 line 3
*** Update File: old
*** Move to: d/new
@@
-a
+b
*** Add File: added
+1
+2
*** Delete File: gone
*** End Patch
"""


async def test_a_patch_updates_adds_moves_and_deletes(patches: Desk) -> None:
    for name, data in {"x": lines(5), "old": b"a\n", "gone": b"1\n"}.items():
        patches.write(name, data)
    preview = await patches.call("apply_patch", patch=PATCH, preview=True)
    assert not preview.is_error, preview.text
    assert patches.content() == {"x": lines(5), "old": b"a\n", "gone": b"1\n"}
    text = await patches.done("apply_patch", patch=PATCH)
    expected = {"x": lines(5, line_2="line two"), "d/new": b"b\n", "added": b"1\n2\n"}
    assert patches.content() == expected
    assert "line two" in text
    await patches.done("text_editor", command="undo_edit", path="gone")
    assert patches.read("gone") == b"1\n"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        (PATCH.replace("line 2", "line 7"), "not_found"),
        (PATCH.replace("Add File: added", "Add File: x2"), "file_exists"),
        (PATCH.replace("Delete File: gone", "Delete File: nowhere"), "file_not_found"),
        (PATCH.replace("Add File: added", "Add File: ../added"), "path_escapes"),
        (PATCH.replace("Add File: added", "Add File: .git/hooks/x"), "write_denied"),
        (PATCH.replace("Move to: d/new", "Move to: x2"), "file_exists"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(patches: Desk, patch: str, code: str) -> None:
    for name, data in {"x": lines(5), "x2": b"", "old": b"a\n", "gone": b"1\n"}.items():
        patches.write(name, data)
    found, text = await patches.refused("apply_patch", patch=patch)
    assert found == code or (code == "not_found" and found == "near_miss"), text


@pytest.mark.parametrize("patch", ["", "no patch", "*** Begin Patch\n", "*** Begin Patch\n+x\n*** End Patch"])
async def test_what_is_no_patch_is_refused(patches: Desk, patch: str) -> None:
    await patches.refused("apply_patch", patch=patch)


async def test_a_patch_is_held_to_the_path_that_is_named(patches: Desk) -> None:
    patches.write("x", lines(5))
    patch = "*** Begin Patch\n*** Update File: x\n@@\n-line 2\n+two\n*** End Patch\n"
    assert (await patches.refused("apply_patch", patch=patch, path="y"))[0] == "bad_arguments"
    await patches.done("apply_patch", patch=patch, path="./x")


async def test_a_patch_is_merged_with_what_others_changed_or_refused(patches: Desk) -> None:
    patches.write("x", lines(8))
    await patches.done("text_editor", command="view", path="x")
    patches.write("x", lines(8, line_1="line one"))
    patch = "*** Begin Patch\n*** Update File: x\n@@\n line 1\n line 2\n-line 3\n+line three\n*** End Patch\n"
    assert "+line one" in await patches.done("apply_patch", patch=patch)
    assert patches.read("x") == lines(8, line_1="line one", line_3="line three")
    patches.write("x", lines(8, line_1="line one", line_3="line 3.5"))
    again = (
        patch.replace("line 1\n", "line one\n")
        .replace("line three", "III")
        .replace("line 3\n", "line three\n")
    )
    assert (await patches.refused("apply_patch", patch=again))[0] == "changed_since_read"


# which


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("sets", [("editor",), ("files",), ("editor", "files", "shell")])
async def test_each_format_has_its_tools_and_no_others(
    tmp_path: Path, format_: EditFormat, sets: tuple[str, ...]
) -> None:
    options = EditorOptions(format=format_)
    tools = {
        tool.name: tool
        for tool in await open_toolset(Workspace([tmp_path]), sets, editor=options).list_tools()
    }
    assert ("edit_lines" in tools, "apply_patch" in tools) == (format_ == "anchors", format_ == "patch")
    if "editor" in sets:
        commands = set(tools["text_editor"].parameters["properties"]["command"]["enum"])
        quoting = {"str_replace", "edit", "insert"}
        assert commands & quoting == (quoting if format_ == "quote" else set())
        assert commands >= {"view", "create", "accept", "undo_edit"}
        assert ("old_str" in tools["text_editor"].parameters["properties"]) == (format_ == "quote")
    reading = open_toolset(Workspace([tmp_path]), sets, editor=options, read_only=True)
    assert {tool.effect for tool in await reading.list_tools()} <= {"read", "execute"}


async def test_anchors_over_mcp(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(lines(5))
    toolset = open_toolset(Workspace([tmp_path]), editor=EditorOptions(format="anchors"))
    async with Client(build_server(toolset)) as client:
        viewed = await client.call_tool("text_editor", {"command": "view", "path": "x"})
        (block,) = viewed.content
        assert isinstance(block, mcp_types.TextContent)
        anchor = block.text.splitlines()[2].partition("│")[0]
        edits = [{"first": anchor, "text": "three"}]
        assert not (await client.call_tool("edit_lines", {"path": "x", "edits": edits})).is_error
    assert (tmp_path / "x").read_bytes() == lines(5, line_3="three")


@pytest.mark.parametrize(
    ("model", "format_"),
    [
        ("", "quote"),
        ("anthropic:claude-opus-5", "quote"),
        ("openai:gpt-5.6-sol", "patch"),
        ("openrouter:x-ai/grok-code-fast-1", "anchors"),
        ("glm-5.1", "anchors"),
        ("zai:GLM-5.3-flash", "quote"),
        ("deepseek-chat", "quote"),
        ("moonshot:kimi-k2", "quote"),
    ],
)
def test_a_model_edits_as_is_known_to_be_best(model: str, format_: str) -> None:
    assert choose_format(model) == format_ == resolve_format("auto", model)
    assert resolve_format("anchors", model) == "anchors"
    assert resolve_format({"no-such": "patch"}, model) == format_
    assert resolve_format({"no-such": "patch", "*": "anchors"}, model) == "anchors"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError):
        resolve_format("diff")

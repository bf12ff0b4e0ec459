"""What the tools say of themselves, and that no arguments can bring them out of order."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import examples

from kakite.serve.to_mcp import to_mcp_tool
from kakite.tools import (
    SETS,
    CommandRules,
    EditorOptions,
    FunctionTool,
    FunctionToolset,
    Tool,
    ToolCall,
    ToolResult,
    open_toolset,
)
from kakite.tools.editor.text_editor import TEXT_EDITOR
from kakite.tools.files.apply_diffs import APPLY_DIFFS
from kakite.tools.files.read_files import LIST_FILES, READ_FILES, SET_WORKSPACE
from kakite.tools.files.search_and_replace import SEARCH_AND_REPLACE
from kakite.tools.files.write_files import DELETE_FILE, INSERT_CONTENTS, MOVE_FILE, WRITE_FILES
from kakite.tools.search.find_in_files import FIND_IN_FILES
from kakite.tools.search.glob import GLOB
from kakite.tools.shell.background_jobs import POLL_COMMAND, STOP_COMMAND
from kakite.tools.shell.run_command import RUN_COMMAND
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

CHARACTERS_PER_TOKEN = 3.6
"""Of cl100k_base, at least, in our schemas.

Counted with its own vocabulary, they had 4.1 (1,997 tokens), the hungriest tool 3.63. The vocabulary has to
be fetched, which a test must not do; this bound is below both: it counts too many tokens, never too few.
"""


async def wire(*names: str, **options: Any) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        tools = await open_toolset(Workspace([folder]), names, **options).list_tools()
    return [to_mcp_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


async def test_all_schemas_together_take_at_most_3000_tokens() -> None:
    text = json.dumps(await wire("editor", "files"), ensure_ascii=False, separators=(",", ":"))
    assert text.isascii()  # another script would need far more tokens for its characters
    assert len(text) / CHARACTERS_PER_TOKEN <= 3000


@pytest.mark.parametrize("split", [False, True])
async def test_every_tool_has_all_annotations_and_takes_no_other_arguments(*, split: bool) -> None:
    tools = await wire("editor", "files", "shell", editor=EditorOptions(split=split))
    assert len(tools) > 10
    for tool in tools:
        hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title"}
        assert set(tool["annotations"]) >= hints, tool["name"]
        assert tool["inputSchema"]["additionalProperties"] is False
        reads = tool["_meta"]["kakite/effect"] == "read"
        assert tool["annotations"]["readOnlyHint"] is reads
        assert tool["annotations"]["destructiveHint"] is not reads
        assert tool["annotations"]["idempotentHint"] is (
            (reads and tool["name"] != "poll_command") or tool["name"] == "set_workspace"
        )


async def test_every_tool_that_writes_files_has_a_preview() -> None:
    tools = await wire("editor", "files")
    assert len(tools) > 5
    for tool in tools:
        writes = tool["_meta"]["kakite/effect"] == "write" and tool["name"] != "set_workspace"
        assert ("preview" in tool["inputSchema"]["properties"]) is writes


NESTED = Tool(
    name="nested",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"search": {"type": "string"}, "line": {"type": "integer"}},
                    "required": ["search"],
                    "additionalProperties": False,
                },
            },
            "count": {"type": "integer"},
        },
        "required": ["edits"],
        "additionalProperties": False,
    },
)


async def _echo(arguments: dict[str, Any]) -> ToolResult:
    return ToolResult(text=json.dumps(arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"edit": []}, "did you mean `edits`?"),
        ({"edits": [{"serach": "x"}]}, "did you mean `search`?"),
        ({"edits": [{"search": "x"}, {"search": "y", "lines": 1}]}, "did you mean `line`?"),
        ({"edits": [{"search": 3}]}, "`edits`: `0`: `search`: "),
        ({"edits": "x" * 10_000}, "…"),
        ({"x" * 10_000: 1}, "has no argument"),
    ],
)
async def test_what_does_not_fit_is_named_with_the_nearest_known_name(
    arguments: dict[str, Any], text: str
) -> None:
    result = await FunctionToolset(FunctionTool(NESTED, _echo)).call(
        ToolCall(id="1", name="nested", arguments=arguments)
    )
    assert (result.is_error, result.code) == (True, "bad_arguments")
    assert text in result.text
    assert len(result.text) < 1500


async def test_a_list_of_objects_may_come_as_text_and_with_nulls() -> None:
    for edits in ('[{"search": "x"}]', [{"search": "x", "line": None}]):
        arguments = {"edits": edits}
        result = await FunctionToolset(FunctionTool(NESTED, _echo)).call(
            ToolCall(id="1", name="nested", arguments=arguments)
        )
        assert result.text == '{"edits": [{"search": "x"}]}'


async def test_null_is_left_out_and_a_whole_number_is_one_however_it_is_written() -> None:
    arguments = {"edits": [{"search": "x", "line": 3.0}], "count": None}
    result = await FunctionToolset(FunctionTool(NESTED, _echo)).call(
        ToolCall(id="1", name="nested", arguments=arguments)
    )
    assert result.text == '{"edits": [{"search": "x"}]}'.replace('"x"', '"x", "line": 3')


GOOD = st.sampled_from(["x", "d/y", "new", "./x"])
PATHS = GOOD | st.sampled_from(
    [".", "..", "../outside", "/", "link", "d", "", "a\0b", "\ud800", "b", ".git/config", "x" * 300, "d/new"]
)
TEXTS = st.sampled_from(
    ["", "a", "one\n", "\r\n", "$1", "\\1", "(", "\0", "\ud800", "日本", "^", ".*", "(a+)+$"]
)
NUMBERS = st.integers(-3, 9) | st.sampled_from([10**30, -(10**30), 2.0, 1.5, float("inf")])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | PATHS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = {
    "path": PATHS | st.lists(PATHS, max_size=3),
    "command": st.sampled_from(["view", "create", "insert"]),
}


def likely(schema: dict[str, Any], name: str) -> st.SearchStrategy[Any]:
    """Return values that mostly fit, so that the fuzz comes further than the first check."""
    if name in {"path", "source", "destination"}:
        one = GOOD | PATHS
        return one if schema.get("type") == "string" else one | st.lists(one, min_size=1, max_size=3)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(likely(each, "") for each in schema["anyOf"]))
    if schema.get("pattern"):
        return st.sampled_from(["1-2", "0-0", "9-1", "1-999999999"])
    match schema["type"]:
        case "integer":
            return st.integers(-3, 9)
        case "boolean":
            return st.booleans()
        case "array":
            least, most = int(schema.get("minItems", 0)), min(3, int(schema.get("maxItems", 3)))
            return st.lists(likely(schema["items"], ""), min_size=least, max_size=most)
        case _:
            return likely_object(schema) if schema["type"] == "object" else TEXTS


def likely_object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    inner: dict[str, Any] = schema["properties"]
    needed = {name: likely(inner[name], name) for name in schema["required"]}
    free = {name: likely(each, name) for name, each in inner.items() if name not in needed}
    return st.fixed_dictionaries(needed, optional=free)


TOOLS = (
    TEXT_EDITOR,
    SET_WORKSPACE,
    READ_FILES,
    LIST_FILES,
    FIND_IN_FILES,
    GLOB,
    WRITE_FILES,
    INSERT_CONTENTS,
    APPLY_DIFFS,
    SEARCH_AND_REPLACE,
    MOVE_FILE,
    DELETE_FILE,
    RUN_COMMAND,
    POLL_COMMAND,
    STOP_COMMAND,
)


async def test_the_fuzz_knows_every_tool(tmp_path: Path) -> None:
    toolset = open_toolset(Workspace([tmp_path]), SETS)
    assert {tool.name for tool in await toolset.list_tools()} == {tool.name for tool in TOOLS}


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    tool = draw(st.sampled_from(TOOLS))
    properties: dict[str, Any] = tool.parameters["properties"]
    wild = draw(st.booleans())
    arguments: dict[str, Any] = {}
    for name, schema in properties.items():
        if name in tool.parameters["required"] or draw(st.booleans()):
            fits = not wild or draw(st.integers(0, 3)) > 0
            arguments[name] = draw(likely(schema, name) if fits else JSON)
    if wild and draw(st.booleans()):
        arguments[draw(st.text(max_size=5))] = draw(JSON)
    return ToolCall(id="1", name=tool.name, arguments=arguments)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Workspace, Counter[bool]]]:
    base = tmp_path_factory.mktemp("arena")
    root = base / "root"
    (root / "d").mkdir(parents=True)
    (root / ".git").mkdir()
    (base / "outside").write_bytes(b"outer-space\n")
    (root / "link").symlink_to(base / "outside")
    workspace = Workspace([root])
    results: Counter[bool] = Counter()
    yield root, workspace, results
    workspace.close()
    assert (
        results[False] * 100 > results.total()
    )  # else the fuzz never came beyond the check of the arguments


@settings(max_examples=examples(600))
@given(call=calls())
async def test_no_arguments_raise_escape_or_break_a_tool(
    arena: tuple[Path, Workspace, Counter[bool]], call: ToolCall
) -> None:
    root, workspace, results = arena
    # Commands are refused before they run: what they may do is no matter of arguments.
    toolset = open_toolset(workspace, SETS, commands=CommandRules(allow=("true",)))
    (root / "new").unlink(missing_ok=True)
    (root / "x").write_bytes(b"one\ntwo\r\nthree")
    (root / "d/y").write_bytes("日本語\n".encode("shift_jis"))
    (root / "b").write_bytes(b"\0\1\2")
    result = await toolset.call(call)
    assert bool(result.code) is result.is_error
    assert "Traceback" not in result.text
    assert "outer-space" not in result.text
    assert (root.parent / "outside").read_bytes() == b"outer-space\n"
    assert sorted(entry.name for entry in root.parent.iterdir()) == ["outside", "root"]
    assert list((root / ".git").iterdir()) == []
    results[result.is_error] += 1

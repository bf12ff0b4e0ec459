"""Notebooks in the editor: by cell, with all other bytes kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tools.conftest import Desk

pytestmark = pytest.mark.anyio

IMAGE = "iVBORw0KGgoAAAANSUhEUgAA" * 100


def notebook(**layout: Any) -> bytes:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Títle\n", "text"]},
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": "b",
            "metadata": {"tags": []},
            "outputs": [
                {
                    "data": {"image/png": IMAGE, "text/plain": ["<Figure>"]},
                    "metadata": {},
                    "output_type": "display_data",
                }
            ],
            "source": ["x = 1\n", 'print("é\\n")\n', "y = 2"],
        },
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "c",
            "metadata": {},
            "outputs": [],
            "source": ["x = 1\n", "z"],
        },
    ]
    value: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(value, **layout).encode() + b"\n"


HEAD = "--- cell 3, code ---"

LAYOUTS: list[dict[str, Any]] = [
    {"indent": 1, "ensure_ascii": False},
    {"indent": 2},
    {"separators": (",", ":")},
]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=["jupyter", "escaped", "compact"])


@layouts
async def test_a_cell_is_edited_as_it_is_shown(desk: Desk, layout: dict[str, Any]) -> None:
    data = notebook(**layout)
    desk.write("a.ipynb", data)
    shown = await desk.done("text_editor", command="view", path="a.ipynb")
    assert 'print("é\\n")' in shown
    assert "cell 2, code" in shown
    assert "image/png" in shown
    assert IMAGE[:20] not in shown
    new = 'print("日\\n")'
    result = await desk.call(
        "text_editor", command="str_replace", path="a.ipynb", old_str='print("é\\n")', new_str=new
    )
    assert not result.is_error
    assert new in result.text
    expected = json.loads(data)
    expected["cells"][1]["source"][1] = new + "\n"
    assert desk.read("a.ipynb") == json.dumps(expected, **layout).encode() + b"\n"
    assert "a.ipynb" in result.details["diff"]
    await desk.done("text_editor", command="undo_edit", path="a.ipynb")
    assert desk.read("a.ipynb") == data


@layouts
async def test_lines_are_inserted_and_several_edits_made_in_cells(desk: Desk, layout: dict[str, Any]) -> None:
    data = notebook(**layout)
    desk.write("a.ipynb", data)
    shown = await desk.done("text_editor", command="view", path="a.ipynb")
    line = next(int(each.split("\t")[0]) for each in shown.split("\n") if each.endswith("y = 2"))
    await desk.done("text_editor", command="insert", path="a.ipynb", insert_line=line, insert_text="w = 3\n")
    edits = [{"old_str": "# Títle", "new_str": "# Title"}, {"old_str": "y = 2\nw = 3", "new_str": "y = 4"}]
    await desk.done("text_editor", command="edit", path="a.ipynb", edits=edits)
    expected = json.loads(data)
    expected["cells"][0]["source"][0] = "# Title\n"
    expected["cells"][1]["source"][2] = "y = 4"
    assert desk.read("a.ipynb") == json.dumps(expected, **layout).encode() + b"\n"


@layouts
async def test_cells_come_go_and_move(desk: Desk, layout: dict[str, Any]) -> None:
    data = notebook(**layout)
    desk.write("a.ipynb", data)

    async def change(**arguments: object) -> list[str]:
        await desk.done("text_editor", path="a.ipynb", **arguments)
        return ["".join(cell["source"]) for cell in json.loads(desk.read("a.ipynb"))["cells"]]

    async def insert(line: int, kind: str, text: str) -> list[str]:
        new = f"--- new cell, {kind} ---\n{text}"
        return await change(command="insert", insert_line=line, insert_text=new)

    async def replace(old: str, new: str = "") -> list[str]:
        return await change(command="str_replace", old_str=old, new_str=new)

    one, two, three = ["".join(cell["source"]) for cell in json.loads(data)["cells"]]
    assert await insert(8, "code", "é\nend") == [one, two, "é\nend", three]
    assert await insert(0, "markdown", "top\n") == ["top", one, two, "é\nend", three]
    head = "--- cell {}, {} ---".format
    assert await replace(head(4, "code"), head(2, "code")) == ["top", "é\nend", one, two, three]
    assert await replace(head(1, "markdown"), head(5, "code")) == ["é\nend", one, two, three, "top"]
    assert await replace(head(1, "code") + "\n") == [one, two, three, "top"]
    assert await replace(head(4, "markdown")) == [one, two, three]
    assert desk.read("a.ipynb") == data
    for _ in range(6):
        await desk.done("text_editor", command="undo_edit", path="a.ipynb")
    assert desk.read("a.ipynb") == data


async def test_one_of_two_equal_lines_is_named_by_the_line_above_its_cell(desk: Desk) -> None:
    desk.write("a.ipynb", notebook(indent=1))
    call = {"command": "str_replace", "path": "a.ipynb"}
    assert (await desk.refused("text_editor", **call, old_str="x = 1", new_str="x = 9"))[0] == "ambiguous"
    head = "--- cell 3, code ---\n"
    await desk.done("text_editor", **call, old_str=f"{head}x = 1", new_str=f"{head}x = 9")
    cells = json.loads(desk.read("a.ipynb"))["cells"]
    assert [cell["source"][0] for cell in cells[1:]] == ["x = 1\n", "x = 9\n"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": "str_replace", "old_str": "--- cell 3, code ---", "new_str": "x"}, "not_in_cell"),
        ({"command": "insert", "insert_line": 0, "insert_text": "x"}, "not_in_cell"),
        ({"command": "str_replace", "old_str": "--- cell 4, code ---", "new_str": ""}, "near_miss"),
        ({"command": "str_replace", "old_str": HEAD, "new_str": HEAD}, "not_in_cell"),
        ({"command": "str_replace", "old_str": HEAD, "new_str": "--- cell 4, code ---"}, "not_in_cell"),
        ({"command": "str_replace", "old_str": "nbformat", "new_str": "x"}, "not_found"),
    ],
)
async def test_what_is_no_edit_of_a_cell_is_refused(desk: Desk, arguments: dict[str, Any], code: str) -> None:
    desk.write("a.ipynb", notebook(indent=1))
    assert (await desk.refused("text_editor", path="a.ipynb", **arguments))[0] == code


async def test_other_files_and_broken_notebooks_are_text(desk: Desk) -> None:
    desk.write("a.ipynb", b'{"cells": [\n')
    desk.write("a.json", notebook(indent=1))
    assert '{"cells": [' in await desk.done("text_editor", command="view", path="a.ipynb")
    await desk.done("text_editor", command="str_replace", path="a.ipynb", old_str="[", new_str="[]")
    assert desk.read("a.ipynb") == b'{"cells": []\n'
    assert '"nbformat"' in await desk.done("text_editor", command="view", path="a.json")


async def test_the_json_is_reachable_by_the_file_tools(desk: Desk) -> None:
    desk.write("a.ipynb", notebook(indent=1))
    assert '"nbformat": 4' in await desk.done("read_files", path="a.ipynb")


@pytest.mark.parametrize(
    "line",
    [
        "--- cell 9, code ---",
        "--- new cell, code ---",
        "--- outputs of cell 2: 1 stream ---",
        "--- cell 3, raw --- ",
    ],
)
async def test_a_line_that_looks_like_the_beginning_of_a_cell_is_not_put_into_one(
    desk: Desk, line: str
) -> None:
    data = notebook(indent=1)
    desk.write("a.ipynb", data)
    for arguments in (
        {"command": "str_replace", "old_str": "y = 2", "new_str": f"y = 2\n{line}\nw = 1"},
        {"command": "insert", "insert_line": 5, "insert_text": f"w = 1\n{line}\n"},
        {"command": "insert", "insert_line": 5, "insert_text": f"--- new cell, code ---\nw = 1\n{line}\n"},
    ):
        code, said = await desk.refused("text_editor", path="a.ipynb", **arguments)
        assert code == "not_in_cell"
        assert line.strip() in said
    assert desk.read("a.ipynb") == data


async def test_a_line_like_that_which_is_there_stays_and_can_go(desk: Desk) -> None:
    data = notebook(indent=1).replace(b'"z"', b'"--- cell 9, code ---\\n", "z"')
    desk.write("a.ipynb", data)
    call = {"command": "str_replace", "path": "a.ipynb"}
    await desk.done("text_editor", **call, old_str="z", new_str="q")
    await desk.done("text_editor", **call, old_str="--- cell 9, code ---\nq", new_str="q")
    assert json.loads(desk.read("a.ipynb"))["cells"][2]["source"] == ["x = 1\n", "q"]


@layouts
@pytest.mark.parametrize("preview", [False, True])
async def test_a_replacement_that_breaks_the_json_is_refused(
    desk: Desk, layout: dict[str, Any], preview: bool
) -> None:
    data = notebook(**layout)
    desk.write("a.ipynb", data)
    call = {"path": "a.ipynb", "search": "y = 2", "preview": preview}
    code, said = await desk.refused("search_and_replace", **call, replace='y = "2"')
    assert code == "broken_notebook"
    assert "text_editor" in said
    assert desk.read("a.ipynb") == data


async def test_a_replacement_that_keeps_the_json_valid_or_mends_it_is_made(desk: Desk) -> None:
    desk.write("a.ipynb", notebook(indent=1))
    await desk.done("search_and_replace", path="a.ipynb", search="y = 2", replace='y = \\"2\\"')
    assert json.loads(desk.read("a.ipynb"))["cells"][1]["source"][2] == 'y = "2"'
    desk.write("b.ipynb", b'{"cells": [')
    await desk.done("search_and_replace", path="b.ipynb", search="[", replace="[[")
    assert desk.read("b.ipynb") == b'{"cells": [['
    desk.write("a.json", notebook(indent=1))
    await desk.done("search_and_replace", path="a.json", search="y = 2", replace='y = "2"')
    assert b'"y = "2""' in desk.read("a.json")

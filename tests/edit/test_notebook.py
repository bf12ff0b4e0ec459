"""Notebooks: cells edited as text, and every other byte of the JSON as it was."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.notebook import Notebook, NotInCellError

lines = st.sampled_from(
    ["import x", "x = 1", "    y = 'é'", "# \\u00ab", "", "日本", '"q" \\ /', "\t😀", "\x1b[0m"]
)
sources = st.lists(lines, max_size=5).map("\n".join)


@dataclass(frozen=True)
class Style:
    """How a program writes notebooks."""

    indent: int | str | None
    separators: tuple[str, str]
    ascii: bool
    as_list: bool
    end: str

    def write(self, value: dict[str, Any]) -> str:
        if self.as_list:
            value = value | {"cells": [cell | {"source": _lines(cell["source"])} for cell in value["cells"]]}
        text = json.dumps(
            value, indent=self.indent, separators=self.separators, ensure_ascii=self.ascii, sort_keys=True
        )
        return text + self.end


def _lines(source: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", source) if line]


styles = st.builds(
    Style,
    indent=st.sampled_from([1, 2, 4, "\t", None]),
    separators=st.sampled_from([(",", ": "), (",", ":")]),
    ascii=st.booleans(),
    as_list=st.booleans(),
    end=st.sampled_from(["", "\n"]),
)


@st.composite
def notebooks(draw: st.DrawFn, least: int = 1) -> dict[str, Any]:
    cells: list[dict[str, Any]] = []
    for nth, source in enumerate(draw(st.lists(sources, min_size=least, max_size=4))):
        cell: dict[str, Any] = {"cell_type": "markdown", "id": f"c{nth}", "metadata": {}, "source": source}
        if draw(st.booleans()):
            output = {"name": "stdout", "output_type": "stream", "text": ["é /\n", '{"source": []}']}
            cell |= {"cell_type": "code", "execution_count": nth, "outputs": [output]}
        cells.append(cell)
    # One character that tells how characters are escaped, wherever the cells have none.
    return {"cells": cells, "metadata": {"title": "é"}, "nbformat": 4, "nbformat_minor": 5}


def parsed(raw: str) -> Notebook:
    notebook = Notebook.parse(raw)
    assert notebook is not None
    return notebook


def with_source(value: dict[str, Any], at: int, source: str) -> dict[str, Any]:
    cells = [cell | {"source": source} if nth == at else cell for nth, cell in enumerate(value["cells"])]
    return value | {"cells": cells}


@given(notebooks(), styles, sources, st.data())
def test_an_edited_source_is_written_as_the_same_program_would(
    value: dict[str, Any], style: Style, source: str, data: st.DataObject
) -> None:
    raw = style.write(value)
    at = data.draw(st.integers(0, len(value["cells"]) - 1))
    old = value["cells"][at]["source"]
    changes = parsed(raw).map_source_changes(at + 1, ChangeSet.of(len(old), [Change(0, len(old), source)]))
    assert changes.apply(raw) == style.write(with_source(value, at, source))
    assert changes.invert(raw).apply(changes.apply(raw)) == raw


@given(notebooks(), styles, sources, st.data())
def test_an_edit_of_the_text_is_one_of_the_source(
    value: dict[str, Any], style: Style, source: str, data: st.DataObject
) -> None:
    raw = style.write(value)
    notebook = parsed(raw)
    at = data.draw(st.integers(0, len(value["cells"]) - 1))
    first, last = notebook.get_line_range(at + 1)
    shown = notebook.text.split("\n")
    assert "\n".join(shown[first - 1 : last]) == value["cells"][at]["source"]
    start = sum(len(line) + 1 for line in shown[: first - 1])
    end = start + len(value["cells"][at]["source"])
    changes = notebook.map_text_changes(ChangeSet.of(len(notebook.text), [Change(start, end, source)]))
    assert changes.apply(raw) == style.write(with_source(value, at, source))


@given(notebooks(), styles, sources, st.data())
def test_cells_come_go_and_move_as_the_same_program_would_write_them(
    value: dict[str, Any], style: Style, source: str, data: st.DataObject
) -> None:
    raw, cells = style.write(value), value["cells"]
    notebook = parsed(raw)
    after = data.draw(st.integers(0, len(cells)))
    more = notebook.insert_cell(after, "code", source)
    grown = parsed(more.apply(raw))
    new = json.loads(grown.raw)["cells"][after]
    assert re.fullmatch(r"[\w-]{1,64}", new["id"])
    assert new["id"] not in {cell["id"] for cell in cells}
    added: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }
    expected = [*cells[:after], added | {"id": new["id"]}, *cells[after:]]
    if style.as_list:
        assert grown.raw == style.write(value | {"cells": expected})
    assert grown.delete_cell(after + 1).apply(grown.raw) == raw
    number = data.draw(st.integers(1, len(expected)))
    to = data.draw(st.sampled_from([to for to in range(len(expected) + 1) if to not in {number, number - 1}]))
    moved = grown.move_cell(number, to).apply(grown.raw)
    order = [cell.source for cell in grown.cells]
    order.insert(to if to < number else to - 1, order.pop(number - 1))
    assert [cell.source for cell in parsed(moved).cells] == order
    assert sorted(moved) == sorted(grown.raw)


@given(notebooks(least=0), styles)
def test_the_first_and_the_last_cell_come_and_go(value: dict[str, Any], style: Style) -> None:
    raw = style.write(value | {"cells": []})
    grown = parsed(raw).insert_cell(0, "markdown", "a\nb").apply(raw)
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": "a\nb"}
    cell["id"] = json.loads(grown)["cells"][0]["id"]
    if style.as_list:
        assert grown == style.write(value | {"cells": [cell]})
    assert parsed(grown).delete_cell(1).apply(grown) == raw


ODD = """{"nbformat" : 4 ,"nbformat_minor":4,
   "cells":[
 {"source":["a \\u00E9\\n","b\\/c\\n", "two\\nlines\\n","end"],
  "cell_type":"code", "metadata":{"a": [ ]}, "outputs":[{"output_type":"display_data",
     "data":{"image/png":"iVBORw0KGgo\\n", "text/plain":["<Figure>"]}},
    {"output_type":"error","ename":"E","evalue":"no"}],
  "execution_count":1},
 {"cell_type":"raw","metadata":{},"source":"one\\u000atwo\\n"} ], "metadata" : {}  }"""


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("end", "é\nend!", '"two\\nlines\\n","\\u00E9\\n","end!"],'),
        ("a é\n", "", '["b\\/c\\n", "two'),
        ("b/c\n", "b/c\nd\n", '"b\\/c\\n","d\\n", "two\\nlines\\n","end"]'),
        ("one", "1", '"1\\ntwo\\n"}'),
        ("two\n\n", "three\n\n", '"one\\u000athree\\n"}'),
    ],
)
def test_lines_that_stay_keep_their_bytes_however_they_are_written(old: str, new: str, written: str) -> None:
    notebook = parsed(ODD)
    text = notebook.text
    at = text.index(old)
    after = notebook.map_text_changes(ChangeSet.of(len(text), [Change(at, at + len(old), new)])).apply(ODD)
    assert parsed(after).text == text.replace(old, new, 1)
    assert written in after


def test_outputs_are_told_and_never_shown() -> None:
    text = parsed(ODD).text
    assert "image/png" in text
    assert "iVBOR" not in text
    assert "<Figure>" in text
    assert "E: no" in text


def test_only_sources_can_be_changed() -> None:
    text = parsed(ODD).text
    at = text.index("outputs")
    for change in (
        Change(at, at + 3, "x"),
        Change(0, 0, "x\n"),
        Change(0, len(text), "x\n"),
        Change(len(text), len(text), "x"),
    ):
        with pytest.raises(NotInCellError):
            parsed(ODD).map_text_changes(ChangeSet.of(len(text), [change]))
    for number in (0, 3, -1):
        with pytest.raises(NotInCellError):
            parsed(ODD).delete_cell(number)
    for number, after in ((1, 1), (1, 0), (1, 3), (3, 0)):
        with pytest.raises(NotInCellError):
            parsed(ODD).move_cell(number, after)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "[]",
        "{",
        '{"nbformat": 3, "worksheets": []}',
        '{"nbformat": 4, "cells": {}}',
        '{"nbformat": 4, "cells": [1]}',
        '{"nbformat": 4, "cells": [{"cell_type": "code"}]}',
        '{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}',
        '{"nbformat": 4, "cells": [], "cells": []}',
        '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "a", "source": "b"}]}',
        '{"nbformat": 4, "cells": ' + "[" * 100_000,
    ],
    ids=range(11),
)
def test_what_is_no_notebook_is_text(raw: str) -> None:
    assert Notebook.parse(raw) is None


def test_line_ends_and_blanks_of_the_json_stay() -> None:
    raw = ODD.replace("\n", "\r\n")
    notebook = parsed(raw)
    changes = notebook.insert_cell(1, "markdown", "new")
    assert changes.invert(raw).apply(changes.apply(raw)) == raw
    assert "\n" not in changes.apply(raw).replace("\r\n", "")
    assert [cell.source for cell in parsed(changes.apply(raw)).cells][1] == "new"

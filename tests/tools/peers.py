"""What users of two peers rely on, as exchanges over MCP: their behaviours, in our words, with our answers.

The peers are the editor server that seed 000 names (bhouston/mcp-server-text-editor, 23 behaviours in its
tests) and the file server of seed 004 (orangetooth/fileditor-mcp, 118). A case names by its number
there the behaviour that it stands for: bhouston's in the order of its one file of tests, the package's own
last; fileditor's file by file (apply 001, insert 029, list 046, read 057, replace 069, workspace 092, write
106), with the one that it has switched off. Where we answer otherwise on purpose, a comment says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client


@dataclass(frozen=True, kw_only=True)
class Case:
    """One exchange: what is there, what is called, what comes back and what is there then."""

    says: str
    call: dict[str, Any] | None
    """None: a call that has no arguments at all."""
    of: str = ""
    """The peer's behaviour, by its number; empty for what we add."""
    tool: str = ""
    """Another tool than that of the table."""
    before: dict[str, str] = field(default_factory=dict[str, str])
    folders: tuple[str, ...] = ()
    """Empty ones."""
    links: dict[str, str] = field(default_factory=dict[str, str])
    first: tuple[dict[str, Any], ...] = ()
    """Calls before the one that counts, of the tool of the table."""
    text: tuple[str, ...] = ()
    """Pieces of the answer."""
    lacks: tuple[str, ...] = ()
    code: str = ""
    after: dict[str, str] | None = None
    """Files afterwards; what is not named is as before."""


async def exchange(client: Client, tmp_path: Path, tool: str, case: Case) -> None:
    for name, content in case.before.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode())
    for name in case.folders:
        (tmp_path / name).mkdir(parents=True)
    for name, target in case.links.items():
        (tmp_path / name).symlink_to(target)
    for call in case.first:
        assert not (await client.call_tool(tool, _here(call, tmp_path))).is_error
    arguments = None if case.call is None else _here(case.call, tmp_path)
    result = await client.call_tool(case.tool or tool, arguments)
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    assert (result.is_error, (result.meta or {}).get("kakite/code", "")) == (bool(case.code), case.code), (
        block.text
    )
    for piece in case.text:
        assert piece in block.text
    for piece in case.lacks:
        assert piece not in block.text
    found = {
        str(file.relative_to(tmp_path)): file.read_bytes().decode()
        for file in tmp_path.rglob("*")
        if file.is_file() and not file.is_symlink()
    }
    assert found == {**case.before, **(case.after or {})}


def _here(call: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the folder out where a call names it."""
    return {
        name: value.replace("{root}", str(folder)) if isinstance(value, str) else value
        for name, value in call.items()
    }


SHOWN: set[str] = set()
"""The behaviours that have an exchange."""


def cases(*rows: Case) -> pytest.MarkDecorator:
    SHOWN.update(row.of for row in rows if row.of)
    return pytest.mark.parametrize(
        "case", rows, ids=lambda case: "-".join([*([case.of] if case.of else []), *case.says.split()])
    )

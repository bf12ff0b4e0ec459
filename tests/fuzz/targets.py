"""What strangers' bytes reach first, each as a function of bytes that raises when a promise is broken.

Tests draw their bytes with Hypothesis; ``make fuzz TARGET=parser SECONDS=600`` searches guided by coverage.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mcp_types as mcp

from kakite.collab.realtime.protocol import SyncMessageReader, SyncProtocolError
from kakite.edit import EditError, FormatError, SourceText, apply, parse
from kakite.edit.jsonl_protocol import answer_line
from kakite.errors import KakiteError
from kakite.sandbox.inside.frames import FrameDecoder
from kakite.serve.jsonrpc_lines import make_parse_error, read_message
from kakite.workspace import Workspace

FORMATS: tuple[Any, ...] = ("auto", "search_replace", "udiff", "apply_patch", "json", "xml", "whole")
SECRET = b"nobody reads this"
_INSIDE = {"a.txt": b"one\ntwo\n", "b/c.txt": b"three\n"}


def parser(data: bytes) -> set[str]:
    """A model's reply is edits or a refusal, in any format; applied, it is undone to the same text.

    The text stands before the first NUL and the reply after it; without one the reply is all there is, and
    half of it the text. Returns how far it came, in any format: ``applied`` (it was tried), ``landed``.
    """
    text, both, reply = data.decode("utf-8", "replace").partition("\0")
    if not both:
        text, reply = text[: len(text) // 2], text
    reached: set[str] = set()
    for name in FORMATS:
        try:
            operations = parse(reply, name, max_edits=50)
        except FormatError:
            continue
        reached |= {"applied"} if operations else set()
        try:
            result = apply(text, operations)
        except EditError:
            continue
        reached |= {"landed"} if result.text != text else set()
        assert result.changes.invert(text).apply(result.text) == text
        request = json.dumps({"id": 1, "text": text, "reply": reply, "format": name})
        assert json.loads(answer_line(request))["text"] == result.text
    _check_answer(json.loads(answer_line(data.decode("utf-8", "surrogateescape"))))
    request = json.dumps({"id": 7, "text_b64": base64.b64encode(data).decode(), "reply": reply})
    assert _check_answer(json.loads(answer_line(request))) == 7
    assert SourceText.from_bytes(data).to_bytes() == data
    return reached


def _check_answer(answer: dict[str, Any]) -> object:
    """Hold an answer of ``kakite edit --jsonl`` to its whole shape; return its id."""
    if answer["ok"] is True:
        assert answer.keys() - {"text", "text_b64"} == {"id", "ok", "applied", "diff"}
        assert len(answer.keys() & {"text", "text_b64"}) == 1
        for match in answer["applied"]:
            assert _kinds(match).items() <= (MATCH | MATCH_MAY_TELL).items()
            assert match.keys() >= MATCH.keys()
        return answer["id"]
    assert answer.keys() == {"id", "ok", "failures"}
    assert answer["ok"] is False
    assert answer["failures"]
    for failure in answer["failures"]:
        suggestion = failure.pop("suggestion", None)
        assert suggestion is None or _kinds(suggestion) == SUGGESTION
        assert _kinds(failure) == FAILURE
        assert re.fullmatch("[a-z_]+", failure["code"])
        assert failure["message"]
        assert failure["index"] >= -1
        for candidate in failure["candidates"]:
            assert candidate.keys() == {"line", "lines", "score", "text"}
    return answer["id"]


def _kinds(value: dict[str, Any]) -> dict[str, type]:
    return {name: type(each) for name, each in value.items()}


MATCH = {"index": int, "line": int, "lines": int, "match": str, "forgiven": list}
MATCH_MAY_TELL = {"starts_inside": bool, "ends_inside": bool, "repeats": bool, "left": list}
SUGGESTION = {"id": str, "line": int, "diff": str}
FAILURE = {"index": int, "code": str, "message": str, "hint": str, "candidates": list}


def paths(data: bytes) -> None:
    """No path is read or written outside of the workspace, and none raises another error than ours."""
    home, workspace, _ = _workspace()
    path, _, content = data.decode("utf-8", "surrogateescape").partition("\n")
    calls: tuple[Callable[[], object], ...] = (
        lambda: workspace.read(path).data,
        lambda: workspace.canonicalize(path),
        lambda: workspace.is_folder(path),
        lambda: workspace.walk(path, depth=2, limit=10),
        lambda: workspace.write(path, content.encode("utf-8", "surrogateescape"), expected=None),
        lambda: workspace.undo(path),
    )
    for call in calls:
        try:
            found = call()
        except KakiteError:
            continue
        assert found != SECRET
    assert sorted(each.name for each in home.iterdir()) == ["outside", "root"]
    assert {each.name: each.read_bytes() for each in (home / "outside").iterdir()} == {"secret": SECRET}


def frames(data: bytes) -> None:
    """A line of MCP is a message or is refused; frames and numbers are whole, however they come in pieces."""
    for line in data.split(b"\n"):
        if read_message(line) is None and line.strip():
            told = mcp.jsonrpc_message_adapter.validate_json(
                make_parse_error(line).model_dump_json(by_alias=True)
            )
            assert isinstance(told, mcp.JSONRPCError)
    assert _framed([data]) == _framed([data[at : at + 1] for at in range(len(data))])
    reader = SyncMessageReader(data)
    try:
        while not reader.at_end:
            reader.read_var_uint()
            assert len(reader.read_var_string().encode()) <= len(data)
    except SyncProtocolError:
        pass


def _framed(pieces: list[bytes]) -> list[object]:
    taken, found = FrameDecoder(), list[object]()
    try:
        for piece in pieces:
            found += taken.feed(piece)
    except ValueError:
        found.append("refused")
    return found


@cache
def _workspace() -> tuple[Path, Workspace, tempfile.TemporaryDirectory[str]]:
    """Return a folder, a workspace in it that has every kind of way out, and what removes them at the end."""
    held = tempfile.TemporaryDirectory(prefix="kakite-fuzz-")
    home = Path(held.name, "home")
    for name, content in {
        **{f"root/{name}": content for name, content in _INSIDE.items()},
        "outside/secret": SECRET,
    }.items():
        (home / name).parent.mkdir(exist_ok=True, parents=True)
        (home / name).write_bytes(content)
    (home / "root" / "out").symlink_to(home / "outside")
    (home / "root" / "up").symlink_to("..")
    (home / "root" / "b" / "secret").symlink_to("../../outside/secret")
    (home / "root" / "loop").symlink_to("loop")
    return home, Workspace([home / "root"]), held


TARGETS: Mapping[str, Callable[[bytes], object]] = {"parser": parser, "paths": paths, "frames": frames}
SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "parser": (
        b"a.txt\n<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n",
        b"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+two\n three\n",
        b"*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\n",
        b'{"edits": [{"path": "a.txt", "search": "one", "replace": "two"}]}',
        b"one\ntwo\nthree\n\0a.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n",
        b"one\n  two\n\0--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        b'{"id": 1, "text": "one", "edits": [{"search": "one", "replace": "two"}]}',
    ),
    "paths": (
        b"a.txt\nnew",
        b"b/../a.txt\n",
        b"out/secret\nnew",
        b"up/outside/secret\n",
        b"b/secret\n",
        b"../outside/x\nnew",
        b"/proc/self/cwd/../root\n",
        b"loop/x\n",
        b"a.txt/\n",
        b"./b//c.txt\n",
        b"new/folder/file\nnew",
        b"~/x\n",
        b"\xff\xfe\n",
    ),
    "frames": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","method":"x","params":{"id":1}}\n',
        b'{"jsonrpc":"2.0","id":"a","result":{}}\n',
        b"[1,2]\n",
        b"\x01\x00\x00\x00\x05\x00\x00\x00hello",
        b"\x00\x85\x01abc",
    ),
}
"""What a search begins with: one of each kind."""

"""What the package offers to models and programs, found in its source: tools, and streams of events.

Nothing is listed by hand that could be forgotten. What is found and has no place in the reference stops it.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from kakite.agent.observe import events as run_events
from kakite.collab.assistant import runs as page_events
from kakite.debate.mcp.descriptions import build_tools as debate_tools
from kakite.debate.session import UpdateKind
from kakite.tools import EditorOptions, Tool
from kakite.tools.toolset_factory import open_toolset
from kakite.workspace import Workspace

_SERVERS: Mapping[str, str] = {
    "agent": "kakite chat",
    "tools": "kakite serve",
    "collab": "kakite collab",
    "host": "kakite host",
}
"""Who offers the tools that a part of the package has as constants."""
_COPIES = {
    "agent/toolsets/external.py",
    "host/from_mcp.py",
    "host/resources_and_prompts.py",
    "host/tool_search.py",
    "debate/mcp/descriptions.py",
}
"""Where tools are made of others, or by a function: those of debates are asked of that function. Operations
of hosts are shown to nobody."""

_STREAMS: Mapping[str, str] = {
    "agent/observe/events.py": "agent-web.md#events",
    "debate/rounds.py": "debate.md#lines-of-json",
    "collab/assistant/runs.py": "collab.md#api",
}
"""Where the documentation tells of the events that a file defines."""

_RUN_EVENTS = [
    kind
    for kind in get_args(run_events.RunEvent)
    if kind not in {run_events.ModelTextDelta, run_events.ModelThoughtDelta}
]  # pieces of a text are written nowhere


def tool_constants(source: Path) -> Iterator[tuple[str, str]]:
    """Yield the file and the name of every constant that is a tool.

    Raises:
        SystemExit: a tool is made where nobody could find it.
    """
    for file in sorted(source.glob("**/*.py")):
        text = file.read_text(encoding="utf-8")
        if "Tool(" not in text:  # most files: they need not be parsed
            continue
        tree = ast.parse(text)
        place = file.relative_to(source).as_posix()
        kept = {id(node.value): node for node in tree.body if isinstance(node, ast.Assign)}
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Tool"
            ):
                continue
            target = kept[id(node)].targets[0] if id(node) in kept else None
            if isinstance(target, ast.Name):
                yield place, target.id
            elif place not in _COPIES or _is_named(node):
                raise SystemExit(f"{place}:{node.lineno} makes a tool that is no constant of the file")


def _is_named(call: ast.Call) -> bool:
    return any(each.arg == "name" and isinstance(each.value, ast.Constant) for each in call.keywords)


def tools(source: Path) -> Mapping[str, Sequence[Tool]]:
    """Return the tools of each server.

    Raises:
        SystemExit: a tool is in a part of which no server is known.
    """
    found: dict[str, list[Tool]] = {server: [] for server in _SERVERS.values()}
    for place, name in tool_constants(source):
        server = _SERVERS.get(place.partition("/")[0])
        if server is None:
            raise SystemExit(f"{place} has a tool, and no server is known that offers it")
        module = "kakite." + place.removesuffix(".py").replace("/", ".")
        found[server].append(getattr(import_module(module), name))
    return {
        "kakite serve": found["kakite serve"],
        "kakite serve --split-editor": split_editor(),
        "kakite debate serve": debate_tools(("codex", "claude"), 5),
        "kakite collab": found["kakite collab"],
        "kakite host": found["kakite host"],
        "kakite chat": found["kakite chat"],
    }


def split_editor() -> list[Tool]:
    """Return the editor as one tool for each of its commands."""
    with TemporaryDirectory() as folder, closing(Workspace([folder])) as workspace:
        return [
            *asyncio.run(open_toolset(workspace, ("editor",), editor=EditorOptions(split=True)).list_tools())
        ]


def events(source: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the events by the place that tells of them, each with its fields where the source says them.

    Raises:
        SystemExit: a file has events, and no page is known that tells of them.
    """
    for file in sorted(source.glob("**/*.py")):
        place = file.relative_to(source).as_posix()
        if _has_events(file.read_text(encoding="utf-8")) and place not in _STREAMS:
            raise SystemExit(f"{place} has events, and no page is known that tells of them")
    printed = [name for file in sorted(source.glob("cli/debate/*.py")) for name in _printed(file)]
    told: dict[str, str] = {}
    for kind in get_args(page_events.AssistantEvent):
        said = " ".join(str(kind.to_json.__doc__).split())
        told[kind.name] = re.sub(r"Return `(`.*?`)`.*", r"\1", said)
    found = {
        "agent/observe/events.py": dict.fromkeys((each.type for each in _RUN_EVENTS), ""),
        "debate/rounds.py": dict.fromkeys((*get_args(UpdateKind), *printed), ""),
        "collab/assistant/runs.py": told,
    }
    return {page: found[place] for place, page in _STREAMS.items()}


def fields(source: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the fields of events that the source writes as keys, by the place that tells of them."""
    recorded = {kind.type: [each.name for each in dataclasses.fields(kind)] for kind in _RUN_EVENTS}
    traced = _written(source / "host/audit_log.py", "_build_record")
    return {
        "agent-web.md#events": recorded,
        "host-approval.md#traces": {"": traced},
    }


def _written(file: Path, function: str) -> Sequence[str]:
    (found,) = (
        each for each in ast.walk(_tree(file)) if isinstance(each, ast.FunctionDef) and each.name == function
    )
    return [*_keys(found)]


def _keys(within: ast.AST) -> Iterator[str]:
    for node in ast.walk(within):
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant):
                yield str(key.value)


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _has_events(text: str) -> bool:
    return bool(re.search(r"^\w*Event\b.* = ", text, re.MULTILINE))


def _printed(file: Path) -> Iterator[str]:
    """Yield the types of the lines of JSON that a command prints."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                named = isinstance(key, ast.Constant) and key.value == "type"
                if named and isinstance(value, ast.Constant):
                    yield str(value.value)

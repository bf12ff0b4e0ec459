"""Lets a model search for tools where there are more than it should read about, and call what it finds."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, cast

from kakite.tools.arguments import ToolError, to_error_result, validate_arguments
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

CHARACTERS_PER_TOKEN = 4  # of JSON; a rule of thumb, on the safe side for schemas in English
DEFAULT_LIMIT = 5  # tools that an answer tells of, unless asked for more
MAX_LIMIT = 20
MAX_ANSWER_CHARS = 24_000  # characters of an answer, schemas included
MAX_DESCRIPTION_CHARS = 2_000  # characters of one tool's description in an answer
_CLOSE = 75.0  # of 100: words that resemble each other so much may be the same, misspelt
_MAX_NAMES = 30  # tools that are named where nothing fits

SEARCH_TOOLS = Tool(
    name="search_tools",
    title="Search tools",
    description="""\
Find tools by what they do. There are more than you see, of: {servers}.
Answers with names, descriptions and schemas; call what you find with `{call}`.""",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "a few words: what the tool should do, or its name"},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "how many at most",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)

CALL_TOOL = Tool(
    name="call_tool",
    title="Call a tool",
    description="Call a tool that `{search}` found, with arguments that fit its schema.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "the tool's name, as found"},
            "arguments": {"type": "object", "description": "its arguments"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    open_world=True,
)


def estimate_tokens(tools: Iterable[Tool]) -> int:
    """Return about how many tokens the definitions take: a quarter of the characters of their JSON."""
    return sum(len(_serialize_definition(tool)) for tool in tools) // CHARACTERS_PER_TOKEN


def is_over_budget(tools: Iterable[Tool], budget: int) -> bool:
    """Return whether the definitions take more tokens than that. Looks at no more of them than it has to."""
    sizes = accumulate(len(_serialize_definition(tool)) for tool in tools)
    return any(size // CHARACTERS_PER_TOKEN > budget for size in sizes)


def _serialize_definition(tool: Tool) -> str:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(told, ensure_ascii=False)


class ToolSearchToolset:
    """A toolset that shows two tools instead of all when their definitions take more than a budget.

    Goes around the approval, not below it: a call of what was found is passed on under the tool's real name,
    and is then judged, asked and traced like any other. Tools are listed in the order in which they were
    first seen, and once it has begun to hide them it goes on: what a provider caches of the list stays valid.
    """

    def __init__(self, toolset: Toolset, budget_tokens: int, keep: Sequence[str] = ()) -> None:
        """Hide tools beyond the budget. ``keep`` are globs over the names of those that are always shown."""
        self._toolset = toolset
        self._budget = budget_tokens
        self._keep = tuple(keep)
        self._order: dict[str, None] = {}
        self._hides = False
        self._listed: tuple[tuple[Tool, ...], tuple[Tool, ...]] = ((), ())
        self._shelf = _ToolIndex(())

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return all tools, or the two and those that are kept."""
        everything = await self._list_all()
        self._hides = self._hides or is_over_budget(everything, self._budget)
        if not self._hides:
            return everything
        search, call = _choose_tool_names(everything)
        kept = {tool.name: tool for tool in everything if self._is_kept(tool)}
        hidden = [tool for tool in everything if tool.name not in kept]
        return (*_build_search_tools(search, call, hidden), *kept.values())

    async def call(self, call: ToolCall) -> ToolResult:
        """Search, or pass the call on."""
        if not self._hides:
            return await self._toolset.call(call)
        everything = await self._list_all()
        search, calls = _choose_tool_names(everything)
        if call.name not in {search, calls}:
            return await self._toolset.call(call)
        try:
            if call.name == search:
                arguments = validate_arguments(SEARCH_TOOLS, call.arguments)
                return await asyncio.to_thread(_search, arguments, self._get_index(everything))
            wanted = await self._resolve_call(call, everything, search)
        except ToolError as error:
            return to_error_result(error)
        return await self._toolset.call(wanted)

    async def _list_all(self) -> tuple[Tool, ...]:
        listed = await self._toolset.list_tools()
        if self._listed[0] is not listed:
            tools = {tool.name: tool for tool in listed}
            self._order.update(dict.fromkeys(tools))
            self._listed = listed, tuple(tools[name] for name in self._order if name in tools)
        return self._listed[1]

    def _get_index(self, tools: tuple[Tool, ...]) -> _ToolIndex:
        if self._shelf.tools is not tools:
            self._shelf = _ToolIndex(tools)
        return self._shelf

    async def _resolve_call(self, call: ToolCall, tools: tuple[Tool, ...], search: str) -> ToolCall:
        """Return the call that is meant, under the tool's real name."""
        given = dict(call.arguments)
        given["arguments"] = _decode_arguments(given.get("arguments"))
        asked = validate_arguments(CALL_TOOL, given)
        name: str = asked["name"]
        if not any(tool.name == name for tool in tools):
            raise await asyncio.to_thread(_make_unknown_tool_error, name, self._get_index(tools), search)
        return ToolCall(id=call.id, name=name, arguments=asked["arguments"])

    def _is_kept(self, tool: Tool) -> bool:
        return any(fnmatchcase(tool.name, glob) for glob in self._keep)


def _choose_tool_names(tools: Sequence[Tool]) -> tuple[str, str]:
    """Return what the two are called: never like a tool that there is."""
    taken = {tool.name for tool in tools}
    return _find_free_name(SEARCH_TOOLS.name, taken), _find_free_name(CALL_TOOL.name, taken)


def _find_free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _build_search_tools(search: str, call: str, hidden: Sequence[Tool]) -> tuple[Tool, Tool]:
    servers = dict.fromkeys(tool.name.partition("__")[0] for tool in hidden)
    told = SEARCH_TOOLS.description.format(servers=_join_names(list(servers)), call=call)
    return (
        _rename_tool(SEARCH_TOOLS, search, told),
        _rename_tool(CALL_TOOL, call, CALL_TOOL.description.format(search=search)),
    )


def _rename_tool(tool: Tool, name: str, description: str) -> Tool:
    return Tool(
        name=name,
        title=tool.title,
        description=description,
        parameters=tool.parameters,
        effect=tool.effect,
        idempotent=tool.idempotent,
        open_world=tool.open_world,
    )


def _join_names(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _make_unknown_tool_error(name: str, shelf: _ToolIndex, search: str) -> ToolError:
    near = [tool.name for tool, _ in _rank_tools(name, shelf)[:DEFAULT_LIMIT]]
    hint = f"the closest are {', '.join(near)}; find others with `{search}`" if near else "there are no tools"
    return ToolError(f"there is no tool `{name[:100]}`", hint=hint, code="unknown_tool")


def _decode_arguments(given: object) -> object:
    """Return arguments that a model wrote as text, or left out, as an object."""
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _search(arguments: JsonObject, shelf: _ToolIndex) -> ToolResult:
    query: str = arguments["query"]
    ranked = _rank_tools(query, shelf)
    if not ranked:
        return ToolResult(text="There are no tools at all now.")
    limit: int = arguments.get("limit", DEFAULT_LIMIT)
    good = [tool for tool, score in ranked if score > 0][:limit]
    if good:
        return ToolResult(text=_format_tools(good))
    closest = [tool.name for tool, _ in ranked[:_MAX_NAMES]]
    return ToolResult(text=f"Nothing fits these words. The closest by name: {_join_names(closest)}")


def _format_tools(tools: Sequence[Tool]) -> str:
    """Return the tools with their schemas, as far as there is room; of the others the names."""
    shown: list[str] = []
    room = MAX_ANSWER_CHARS
    for at, tool in enumerate(tools):
        block = _format_tool(tool)
        room -= len(block) + 1
        if room < 0:
            named = ", ".join(each.name for each in tools[at:])
            return "\n".join(
                [*shown, f"Too long to show here, search for them by name alone: {named}"[:MAX_ANSWER_CHARS]]
            )
        shown.append(block)
    return "\n".join(shown)


def _format_tool(tool: Tool) -> str:
    description = tool.description[:MAX_DESCRIPTION_CHARS]
    told: JsonObject = {"name": tool.name, "description": description, "parameters": tool.parameters}
    whole = json.dumps(told, ensure_ascii=False)
    if len(whole) < MAX_ANSWER_CHARS:
        return whole
    outline: JsonObject = {"type": "object", "required": tool.parameters.get("required", [])[:100]}
    outline["properties"] = list(tool.parameters.get("properties", {}))[:100]
    note = "the schema is too long to show; these are the names of its arguments"
    return json.dumps({**told, "parameters": outline, "note": note}, ensure_ascii=False)[
        : MAX_ANSWER_CHARS - 2
    ]


@dataclass(frozen=True, slots=True)
class _ToolWords:
    """The words by which a tool is found."""

    name: frozenset[str]
    description: frozenset[str]
    arguments: frozenset[str]


class _ToolIndex:
    """Tools, and their words once they are looked for. Any thread may use it: made twice they are equal."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self._words: dict[str, _ToolWords] = {}

    def get_words(self, tool: Tool) -> _ToolWords:
        known = self._words.get(tool.name)
        if known is None:
            known = self._words[tool.name] = _extract_words(tool)
        return known


_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _split_words(text: str) -> list[str]:
    return [_stem(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text))]


def _stem(word: str) -> str:
    # So that `files` finds `file` and `creating` finds `create`: the same for both sides is enough.
    for ending in ("ing", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _extract_words(tool: Tool) -> _ToolWords:
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    return _ToolWords(
        name=frozenset(_split_words(f"{tool.name} {tool.title}")),
        description=frozenset(_split_words(tool.description)),
        arguments=frozenset(word for name in properties for word in _split_words(name)),
    )


def _rank_tools(query: str, shelf: _ToolIndex) -> list[tuple[Tool, float]]:
    """Return all tools, the best first; a score of 0 means that no word of the query fits."""
    from rapidfuzz import fuzz

    tools = shelf.tools
    wanted = list(dict.fromkeys(_split_words(query[:1000])))[:50]

    def score_tool(tool: Tool) -> tuple[float, float]:
        words = shelf.get_words(tool)
        score = sum(_score_word(word, words) for word in wanted)
        exact = 100.0 if query.strip() == tool.name else 0.0
        return score + exact, fuzz.WRatio(query[:1000], tool.name)

    ranks = {tool.name: score_tool(tool) for tool in tools}
    best = sorted(
        tools, key=lambda tool: ranks[tool.name], reverse=True
    )  # stable: else in the order of the list
    return [(tool, ranks[tool.name][0]) for tool in best]


def _score_word(word: str, words: _ToolWords) -> float:
    """Return what a word of the query counts for: most in the name, and half of it where it is misspelt."""
    weights = ((words.name, 4.0), (words.arguments, 1.5), (words.description, 1.0))
    sure = sum(weight for found, weight in weights if word in found)
    if sure:
        return sure
    return max((weight / 2 for found, weight in weights if _is_close(word, found)), default=0.0)


def _is_close(word: str, words: Iterable[str]) -> bool:
    from rapidfuzz import fuzz, process

    if len(word) < 4:
        return False
    return process.extractOne(word, words, scorer=fuzz.ratio, score_cutoff=_CLOSE) is not None

"""More tools than a model should read about: it searches them, and calls what it finds."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, cast

from kakite.tools.arguments import ToolError, checked, failed
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

CHARACTERS_PER_TOKEN = 4  # of JSON; a rule of thumb, on the safe side for schemas in English
FOUND = 5  # tools that an answer tells of, unless asked for more
FOUND_MOST = 20
ANSWER_MOST = 24_000  # characters of an answer, schemas included
DESCRIPTION_SHOWN = 2_000  # characters of one tool's description in an answer
_CLOSE = 75.0  # of 100: words that resemble each other so much may be the same, misspelt
_NAMED = 30  # tools that are named where nothing fits

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
                "maximum": FOUND_MOST,
                "default": FOUND,
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


def tokens(tools: Iterable[Tool]) -> int:
    """Return about how many tokens the definitions take: a quarter of the characters of their JSON."""
    return sum(len(_definition(tool)) for tool in tools) // CHARACTERS_PER_TOKEN


def takes_more(tools: Iterable[Tool], budget: int) -> bool:
    """Return whether the definitions take more tokens than that. Looks at no more of them than it has to."""
    sizes = accumulate(len(_definition(tool)) for tool in tools)
    return any(size // CHARACTERS_PER_TOKEN > budget for size in sizes)


def _definition(tool: Tool) -> str:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(told, ensure_ascii=False)


class SearchedToolset:
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
        self._shelf = _Shelf(())

    async def tools(self) -> tuple[Tool, ...]:
        """Return all tools, or the two and those that are kept."""
        everything = await self._all()
        self._hides = self._hides or takes_more(everything, self._budget)
        if not self._hides:
            return everything
        search, call = _names(everything)
        kept = {tool.name: tool for tool in everything if self._is_kept(tool)}
        hidden = [tool for tool in everything if tool.name not in kept]
        return (*_shown(search, call, hidden), *kept.values())

    async def call(self, call: ToolCall) -> ToolResult:
        """Search, or pass the call on."""
        if not self._hides:
            return await self._toolset.call(call)
        everything = await self._all()
        search, calls = _names(everything)
        if call.name not in {search, calls}:
            return await self._toolset.call(call)
        try:
            if call.name == search:
                arguments = checked(SEARCH_TOOLS, call.arguments)
                return await asyncio.to_thread(_search, arguments, self._on_shelf(everything))
            wanted = await self._wanted(call, everything, search)
        except ToolError as error:
            return failed(error)
        return await self._toolset.call(wanted)

    async def _all(self) -> tuple[Tool, ...]:
        listed = await self._toolset.tools()
        if self._listed[0] is not listed:
            tools = {tool.name: tool for tool in listed}
            self._order.update(dict.fromkeys(tools))
            self._listed = listed, tuple(tools[name] for name in self._order if name in tools)
        return self._listed[1]

    def _on_shelf(self, tools: tuple[Tool, ...]) -> _Shelf:
        if self._shelf.tools is not tools:
            self._shelf = _Shelf(tools)
        return self._shelf

    async def _wanted(self, call: ToolCall, tools: tuple[Tool, ...], search: str) -> ToolCall:
        """Return the call that is meant, under the tool's real name."""
        given = dict(call.arguments)
        given["arguments"] = _decoded(given.get("arguments"))
        asked = checked(CALL_TOOL, given)
        name: str = asked["name"]
        if not any(tool.name == name for tool in tools):
            raise await asyncio.to_thread(_unknown, name, self._on_shelf(tools), search)
        return ToolCall(id=call.id, name=name, arguments=asked["arguments"])

    def _is_kept(self, tool: Tool) -> bool:
        return any(fnmatchcase(tool.name, glob) for glob in self._keep)


def _names(tools: Sequence[Tool]) -> tuple[str, str]:
    """Return what the two are called: never like a tool that there is."""
    taken = {tool.name for tool in tools}
    return _free(SEARCH_TOOLS.name, taken), _free(CALL_TOOL.name, taken)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _shown(search: str, call: str, hidden: Sequence[Tool]) -> tuple[Tool, Tool]:
    servers = dict.fromkeys(tool.name.partition("__")[0] for tool in hidden)
    told = SEARCH_TOOLS.description.format(servers=_listed(list(servers)), call=call)
    return (
        _renamed(SEARCH_TOOLS, search, told),
        _renamed(CALL_TOOL, call, CALL_TOOL.description.format(search=search)),
    )


def _renamed(tool: Tool, name: str, description: str) -> Tool:
    return Tool(
        name=name,
        title=tool.title,
        description=description,
        parameters=tool.parameters,
        effect=tool.effect,
        idempotent=tool.idempotent,
        open_world=tool.open_world,
    )


def _listed(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _unknown(name: str, shelf: _Shelf, search: str) -> ToolError:
    near = [tool.name for tool, _ in _ranked(name, shelf)[:FOUND]]
    hint = f"the closest are {', '.join(near)}; find others with `{search}`" if near else "there are no tools"
    return ToolError(f"there is no tool `{name[:100]}`", hint=hint, code="unknown_tool")


def _decoded(given: object) -> object:
    """Return arguments that a model wrote as text, or left out, as an object."""
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _search(arguments: JsonObject, shelf: _Shelf) -> ToolResult:
    query: str = arguments["query"]
    ranked = _ranked(query, shelf)
    if not ranked:
        return ToolResult(text="There are no tools at all now.")
    limit: int = arguments.get("limit", FOUND)
    good = [tool for tool, score in ranked if score > 0][:limit]
    if good:
        return ToolResult(text=_told(good))
    closest = [tool.name for tool, _ in ranked[:_NAMED]]
    return ToolResult(text=f"Nothing fits these words. The closest by name: {_listed(closest)}")


def _told(tools: Sequence[Tool]) -> str:
    """Return the tools with their schemas, as far as there is room; of the others the names."""
    shown: list[str] = []
    room = ANSWER_MOST
    for at, tool in enumerate(tools):
        block = _block(tool)
        room -= len(block) + 1
        if room < 0:
            named = ", ".join(each.name for each in tools[at:])
            return "\n".join(
                [*shown, f"Too long to show here, search for them by name alone: {named}"[:ANSWER_MOST]]
            )
        shown.append(block)
    return "\n".join(shown)


def _block(tool: Tool) -> str:
    description = tool.description[:DESCRIPTION_SHOWN]
    told: JsonObject = {"name": tool.name, "description": description, "parameters": tool.parameters}
    whole = json.dumps(told, ensure_ascii=False)
    if len(whole) < ANSWER_MOST:
        return whole
    outline: JsonObject = {"type": "object", "required": tool.parameters.get("required", [])[:100]}
    outline["properties"] = list(tool.parameters.get("properties", {}))[:100]
    note = "the schema is too long to show; these are the names of its arguments"
    return json.dumps({**told, "parameters": outline, "note": note}, ensure_ascii=False)[: ANSWER_MOST - 2]


@dataclass(frozen=True, slots=True)
class _Words:
    """What a tool is found by."""

    name: frozenset[str]
    description: frozenset[str]
    arguments: frozenset[str]


class _Shelf:
    """Tools, and their words once they are looked for. Any thread may use it: made twice they are equal."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self._words: dict[str, _Words] = {}

    def words(self, tool: Tool) -> _Words:
        known = self._words.get(tool.name)
        if known is None:
            known = self._words[tool.name] = _words_of(tool)
        return known


_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _split(text: str) -> list[str]:
    return [_stem(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text))]


def _stem(word: str) -> str:
    # So that `files` finds `file` and `creating` finds `create`: the same for both sides is enough.
    for ending in ("ing", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _words_of(tool: Tool) -> _Words:
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    return _Words(
        name=frozenset(_split(f"{tool.name} {tool.title}")),
        description=frozenset(_split(tool.description)),
        arguments=frozenset(word for name in properties for word in _split(name)),
    )


def _ranked(query: str, shelf: _Shelf) -> list[tuple[Tool, float]]:
    """Return all tools, the best first; a score of 0 means that no word of the query fits."""
    from rapidfuzz import fuzz

    tools = shelf.tools
    wanted = list(dict.fromkeys(_split(query[:1000])))[:50]

    def rank(tool: Tool) -> tuple[float, float]:
        words = shelf.words(tool)
        score = sum(_fit(word, words) for word in wanted)
        exact = 100.0 if query.strip() == tool.name else 0.0
        return score + exact, fuzz.WRatio(query[:1000], tool.name)

    ranks = {tool.name: rank(tool) for tool in tools}
    best = sorted(
        tools, key=lambda tool: ranks[tool.name], reverse=True
    )  # stable: else in the order of the list
    return [(tool, ranks[tool.name][0]) for tool in best]


def _fit(word: str, words: _Words) -> float:
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

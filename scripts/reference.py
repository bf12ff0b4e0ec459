"""The reference pages of the documentation, made from the program itself: ``make reference`` writes them.

Commands, tools and settings come from what the program offers. What a code or an event means is said once, in
a table of the page about its part; here all are listed, each with its words and the way there. A code that no
table explains is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_origin

from pydantic.fields import FieldInfo
from typer.main import get_command

from kakite.agent import log, trajectory
from kakite.cli.app import app
from kakite.cli.settings import Settings
from kakite.collab import events as page_events
from kakite.collab.tools import PAGE_SUGGESTIONS
from kakite.debate.bridge import Kind
from kakite.debate.tool_texts import tools as debate_tools
from kakite.tools import Tool
from kakite.tools.apply_diffs import APPLY_DIFFS
from kakite.tools.find_in_files import FIND_IN_FILES
from kakite.tools.jobs import POLL_COMMAND, STOP_COMMAND
from kakite.tools.read_files import LIST_FILES, READ_FILES, SET_WORKSPACE
from kakite.tools.run_command import RUN_COMMAND
from kakite.tools.search_and_replace import SEARCH_AND_REPLACE
from kakite.tools.text_editor import TEXT_EDITOR
from kakite.tools.write_files import INSERT_CONTENTS, WRITE_FILES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src/kakite"

SERVED: Mapping[str, Sequence[Tool]] = {
    "kakite serve": (
        TEXT_EDITOR,
        *(
            SET_WORKSPACE,
            READ_FILES,
            WRITE_FILES,
            LIST_FILES,
            INSERT_CONTENTS,
            APPLY_DIFFS,
            SEARCH_AND_REPLACE,
        ),
        *(FIND_IN_FILES, RUN_COMMAND, POLL_COMMAND, STOP_COMMAND),
    ),
    "kakite debate serve": debate_tools(("codex", "claude"), 5),
    "kakite collab": (PAGE_SUGGESTIONS,),
}
_TOLD_OF: Mapping[str, str] = {
    "text_editor": "../tools.md#text_editor",
    "run_command": "../tools.md#run_command",
    "poll_command": "../tools.md#run_command",
    "stop_command": "../tools.md#run_command",
    "find_in_files": "../tools.md#find_in_files",
    "page_suggestions": "../collab.md",
}

# The form of a family of names, and what Kakite gives to its own helpers.
_INNER = {"KAKITE_DEBATE_NAME_URL", "KAKITE_GIT_PASSWORD", "KAKITE_GIT_USERNAME"}

# Raised where no narrower code fits; the message says it all.
_BASIC: Mapping[str, str] = {
    "error": "something that Kakite knows to be wrong, and that has no narrower code",
    "bad_usage": "a flag, setting or argument makes no sense: the message says which",
    "outside_failed": "a program, a server or the network failed",
    "edit_refused": "edits could not be applied, nothing was changed: each failure has a code of its own",
    "bad_argument": "a call's arguments are not as the tool's schema says",
}
_MADE = "<!-- Made by `make reference`; change the program, or the page that a row leads to. -->"


class Row(NamedTuple):
    """A row of a table in the documentation that explains names."""

    page: str
    anchor: str
    rest: str


# --- what the program has


def commands(command: Any, path: Sequence[str] = ("kakite",)) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its whole name."""
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, (*path, name))
    if not getattr(command, "commands", {}):
        yield " ".join(path), command


def codes() -> list[str]:
    """Return every error code that stands in the source."""
    assigned = re.compile(r"(?:code=|\bcode: str = |^\s+code = )\"([a-z]\w+)\"", re.MULTILINE)
    documented = re.compile(r"Codes?: (.*?)(?:\"\"\"|\n\n)", re.DOTALL)
    found: set[str] = set(_BASIC)
    for file in SOURCE.glob("**/*.py"):
        text = file.read_text(encoding="utf-8")
        found |= set(assigned.findall(text))
        for told in documented.findall(text):
            found |= set(re.findall(r"``([a-z]\w+)``", told))
        found |= set(re.findall(r"(?:refused|Refusal)\(\d+, \"([a-z_]+)\"", text))
        if "forges" in file.parts:
            found |= set(re.findall(r"\"(forge_[a-z_]+)\"", text))
    failures = (SOURCE / "workspace/failures.py").read_text(encoding="utf-8")
    return sorted(found | set(re.findall(r"``([a-z_]+)``", failures)))


def variables() -> list[str]:
    """Return the environment variables that are no setting's and that the source asks for by name."""
    settings = {f"KAKITE_{name.upper()}" for name in Settings.model_fields}
    found: set[str] = set()
    for file in SOURCE.glob("**/*.py"):
        found |= set(re.findall(r"\b(KAKITE_[A-Z_]*[A-Z])\b", file.read_text(encoding="utf-8")))
    return sorted(found - settings - _INNER)


def events() -> Mapping[str, Mapping[str, str]]:
    """Return the events by stream, each with its fields where no table of the stream's page has them."""
    logged = re.findall(r"return \"(\w+)\", [\{_]", Path(log.__file__).read_text(encoding="utf-8"))
    held = (*get_args(Kind), "round", "turn", "ended", "error")
    told: dict[str, str] = {}
    for kind in vars(page_events).values():
        if isinstance(kind, type) and isinstance(name := getattr(kind, "name", None), str):
            said = _text(cast("Any", kind).to_json.__doc__)
            told[name] = re.sub(r"Return `(`.*?`)`.*", r"\1", said)
    return {
        "agent-web.md#export": dict.fromkeys((each.type for each in get_args(trajectory.Event)), ""),
        "agent-web.md#logs": dict.fromkeys(logged, ""),
        "debate.md#lines-of-json": dict.fromkeys(held, ""),
        "collab.md#api": told,
    }


# --- what the pages say


def explained() -> Mapping[str, list[Row]]:
    """Return the rows of all pages whose first cell, or headings that, name something in code quotes."""
    found: dict[str, list[Row]] = {}
    for page in sorted(DOCS.glob("*.md")):
        anchor = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            heading = re.match(r"#+ (.*)", line)
            named = re.match(r"\|\s*((?:`\w+`(?: \(\d+\))?(?:, | or | and )?)+)\s*\|(.*)\|$", line)
            if heading:
                anchor = slug(heading[1])
                if refusal := re.match(r"((?:`[a-z_]+`(?:, )?)+): (.*)", heading[1]):
                    _take(found, refusal[1], Row(page.name, anchor, refusal[2]))
            elif named:
                rest = [cell.strip() for cell in re.split(r"(?<!\\)\|", named[2])]
                _take(found, named[1], Row(page.name, anchor, _sentences(rest)))
    return found


def _take(found: dict[str, list[Row]], names: str, row: Row) -> None:
    for name in re.findall(r"`(\w+)`", names):
        found.setdefault(name, []).append(row)


def _sentences(cells: Sequence[str]) -> str:
    said = [cell for cell in cells if cell]
    return ". ".join([*said[:1], *(cell[0].upper() + cell[1:] for cell in said[1:])])


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


# --- the pages


def command_page() -> str:
    """Return every command with its arguments and options."""
    parts = [
        f"# Commands\n\n{_MADE}",
        "Exit codes: 0 done, 1 no, 2 wrong usage, 3 failed outside, 130 interrupted.",
    ]
    for name, command in commands(get_command(app)):
        words = [
            f"[{_metavar(each)}]" if not each.required else _metavar(each) for each in _arguments(command)
        ]
        parts.append(
            f"## `{name}`\n\n{_text(command.help)}\n\n```\n{' '.join([name, '[OPTIONS]', *words])}\n```"
        )
        rows = [
            *((f"`{_metavar(each)}`", "", _text(each.help)) for each in _arguments(command)),
            *((_flags(each), _default(each), _text(each.help)) for each in _options(command)),
        ]
        parts.append(_table(("", "default", ""), rows))
    return _page(parts)


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _metavar(argument: Any) -> str:
    return argument.name.upper() + ("…" if argument.nargs == -1 else "")


def _flags(option: Any) -> str:
    kind = "" if option.is_flag or option.count else f" {_value(option)}"
    return ", ".join(f"`{each}{kind}`".replace("|", "\\|") for each in (*option.opts, *option.secondary_opts))


def _value(option: Any) -> str:
    kind = option.type_descriptor
    named = {int: "N", float: "N", Path: "PATH"}
    return option.metavar or "|".join(kind.choices or ()) or named.get(kind.annotation, "TEXT")


def _default(option: Any) -> str:
    if option.required:
        return "required"
    value = option.default
    plain = isinstance(value, str | int | float) and value not in {"", False} and not callable(value)
    return f"`{value}`" if plain and value is not True else ""


def tool_page() -> str:
    """Return every tool that Kakite's servers offer."""
    parts = [
        f"# Tools\n\n{_MADE}",
        "What each server offers to a model. How the tools behave: [the tools](../tools.md).",
    ]
    for server, offered in SERVED.items():
        parts.append(f"## `{server}`")
        if server == "kakite collab":
            parts.append("Besides, `text_editor` on the live pages: without `overwrite` and `preview`.")
        parts += [_tool(tool) for tool in offered]
    return _page(parts)


def _tool(tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    rows = [
        (
            f"`{name}`{'' if name in required else ' (may be left out)'}",
            _kind(schema),
            _text(schema.get("description")),
        )
        for name, schema in tool.parameters["properties"].items()
    ]
    effect = {"read": "only looks", "write": "changes files", "execute": "runs programs"}.get(
        tool.effect, tool.effect
    )
    about = f"\n\n[More]({_TOLD_OF[tool.name]})." if tool.name in _TOLD_OF else ""
    text = tool.description.replace("\n- ", "\n\n- ", 1)
    return f"### `{tool.name}`\n\n{text}\n\nIt {effect}.{about}\n\n{_table(('argument', 'type', ''), rows)}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if inner := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_kind, inner)))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def setting_page() -> str:
    """Return every setting and every variable."""
    rows = [
        (f"`{name}`", f"`KAKITE_{name.upper()}`", _usual(field), _text(field.description))
        for name, field in Settings.model_fields.items()
    ]
    told = DOCS.glob("*.md")
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(told)}
    others = [(f"`{name}`", _mentioned(name, pages)) for name in variables()]
    return _page(
        [
            f"# Settings\n\n{_MADE}",
            "Keys of `kakite.yaml`, and the variables that say the same. Which file wins over which, and "
            "what the file of a repository may say: [settings](../agent.md#settings).",
            _table(("key", "variable", "default", ""), rows),
            "## Other variables",
            _table(("variable", "told of in"), others),
        ]
    )


def _usual(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", ()) or value == {} or get_origin(field.annotation) is dict:
        return ""
    shown = ", ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
    return f"`{shown}`" if isinstance(shown, str | int | float) else ""


def _mentioned(name: str, pages: Mapping[str, str]) -> str:
    found = [page for page, text in pages.items() if re.search(rf"\b{name}\b", text)]
    if not found:
        raise SystemExit(f"no page of docs/ tells of the variable {name}")
    return ", ".join(f"[{page.removesuffix('.md')}](../{page})" for page in found)


def code_page() -> str:
    """Return every error code with what it means."""
    known = explained()
    missing = [code for code in codes() if code not in known and code not in _BASIC]
    if missing:
        raise SystemExit(f"no table of docs/ explains: {', '.join(missing)}")
    rows = [(f"`{code}`", *_meaning(known.get(code, ()), _BASIC.get(code, ""))) for code in codes()]
    return _page(
        [
            f"# Error codes\n\n{_MADE}",
            "Every error has a stable code, a message, and a hint what to do next. On the command line the "
            "message and the hint are printed; with `--json`, and to programs and models, the code too.",
            _table(("code", "meaning", "part"), rows),
        ]
    )


def _meaning(rows: Sequence[Row], basic: str) -> tuple[str, str]:
    # A code may stand for the same thing in several parts; each part says it in its own words.
    said = list({row.page: row for row in reversed(rows)}.values())
    links = [f"[{row.page.removesuffix('.md')}](../{row.page}#{row.anchor})" for row in said]
    texts = dict.fromkeys(_without_links(row.rest) for row in said)
    return (basic or "; or: ".join(texts), ", ".join(links))


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def event_page() -> str:
    """Return every event of every stream."""
    titles = {
        "agent-web.md#export": "An exported run",
        "agent-web.md#logs": "A task's log",
        "debate.md#lines-of-json": "A debate as lines of JSON",
        "collab.md#api": "A run of the assistant on a shared page",
    }
    parts = [f"# Events\n\n{_MADE}\n\nWhat programs can listen to, stream by stream."]
    known = explained()
    for place, told in events().items():
        page, _, anchor = place.partition("#")
        rows: list[tuple[str, str]] = []
        for name, fields in told.items():
            said = [row for row in known.get(name, ()) if (row.page, row.anchor) == (page, anchor)]
            if not (said or fields):
                raise SystemExit(f"no table of docs/{page} explains the event {name}")
            text = _without_links(said[0].rest) if said else fields
            rows.append((f"`{name}`", text))
        parts += [
            f"## {titles[place]}",
            f"See [{page.removesuffix('.md')}](../{place}).",
            _table(("event", ""), rows),
        ]
    return _page(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(head), tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def _text(value: str | None) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join((value or "").split()))


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


PAGES = {
    "commands.md": command_page,
    "tools.md": tool_page,
    "settings.md": setting_page,
    "codes.md": code_page,
    "events.md": event_page,
}


def main() -> None:
    """Write all pages."""
    for name, made in PAGES.items():
        (DOCS / "reference" / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

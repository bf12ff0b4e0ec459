"""The reference pages of the site, made from the program itself: ``python -m scripts.reference [FOLDER]``.

``make docs`` writes them beside a copy of the other pages. Git does not keep them.

Commands, tools and settings come from what the program offers. What a code or an event means is said once, in
a table of the page about its part; here all are listed, each with its words and the way there. A code that no
table explains is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kakite.cli.app import build_command
from kakite.cli.settings import EXTRA_KEYS, EXTRA_VARIABLES, Settings
from kakite.tools import Tool
from scripts import offered
from scripts.codes import codes as codes_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src/kakite"

_TOLD_OF: Mapping[str, str] = {
    "text_editor": "../tools.md#text_editor",
    "run_command": "../tools.md#run_command",
    "poll_command": "../tools.md#run_command",
    "stop_command": "../tools.md#run_command",
    "glob": "../tools.md#glob",
    "find_in_files": "../tools.md#find_in_files",
    "move_file": "../tools.md#move_file-delete_file",
    "delete_file": "../tools.md#move_file-delete_file",
    "page_suggestions": "../collab.md",
    "page_comments": "../collab.md",
    "search_tools": "../host-approval.md#many-tools",
    "call_tool": "../host-approval.md#many-tools",
    "start_debate": "../debate-server.md",
    "step": "../debate-server.md",
    "wait": "../debate-server.md",
    "status": "../debate-server.md",
    "stop": "../debate-server.md",
}
_EFFECTS: Mapping[str, str] = {
    "read": "Only reads.",
    "write": "Changes files.",
    "execute": "Runs a program, which may do all that its sandbox allows.",
}
_COSTS = ", which starts their CLIs and uses up their quota. Changes none of your files."
# Where a tool's annotations, which clients decide by, say too little.
_DOES: Mapping[str, str] = {
    "page_comments": "Changes no file: comments are kept beside the page.",
    "set_workspace": "Changes no file: says where later calls of the session begin and how far they see.",
    "poll_command": "Only reads the output of a running program.",
    "stop_command": "Ends programs; changes no file itself.",
    "start_debate": f"Asks the sides{_COSTS}",
    "step": f"Asks the sides again{_COSTS}",
    "wait": "Only waits; of a debate that was interrupted, it asks the sides that have not replied yet.",
    "status": "Only reads.",
    "stop": "Ends the debate, and the CLIs that are at work for it. Changes none of your files.",
    "call_tool": "Does what the tool does that is called; the person is asked as for that one.",
}

# The form of a family of names, and what Kakite gives to its own helpers.
_INNER = {
    *("KAKITE_COMMANDS", "KAKITE_DEBATE_NAME_URL", "KAKITE_GIT_PASSWORD", "KAKITE_GIT_USERNAME"),
    "KAKITE_PASSED_VARIABLES",
}

# Raised where no narrower code fits; the message says it all.
_BASIC: Mapping[str, str] = {
    "error": "Something that Kakite knows to be wrong, and that has no narrower code",
    "bad_usage": "A flag, setting or argument makes no sense: the message says which",
    "outside_failed": "A program, a server or the network failed",
    "edit_refused": "Edits could not be applied, nothing was changed: each failure has a code of its own",
}
# Columns of a yes or a no, as sentences.
_SAID: Mapping[str, Mapping[str, str]] = {
    "retryable": {"yes": "Trying again may help", "no": "Trying again does not help"},
    "again by itself": {"yes": "Kakite tries again by itself", "no": "It is not tried again"},
}
_MADE = "<!-- Made by `make docs`; change the program, or the page that a row leads to. -->"


class Row(NamedTuple):
    """A row of a table in the documentation that explains names."""

    page: str
    anchor: str
    head: str
    """Of the table's first column; empty for what a heading says."""
    rest: str


# --- what the program has


def commands(command: Any, path: Sequence[str] = ("kakite",)) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, or has options of its own, with its whole name."""
    inner = getattr(command, "commands", {})
    if not inner or command.params:
        yield " ".join(path), command
    for name, each in sorted(inner.items()):
        yield from commands(each, (*path, name))


@cache
def codes() -> Mapping[str, str]:
    """Return every error code that the source makes, and where."""
    return codes_of(ROOT / "src", ROOT / "testing/src")


def variables() -> list[str]:
    """Return the environment variables that are no setting's and that the source asks for by name."""
    settings = {f"KAKITE_{name.upper()}" for name in Settings.model_fields}
    found: set[str] = set()
    for file in SOURCE.glob("**/*.py"):
        found |= set(re.findall(r"\b(KAKITE_[A-Z_]*[A-Z])\b", file.read_text(encoding="utf-8")))
    return sorted(found - settings - _INNER)


# --- what the pages say


def explained() -> Mapping[str, list[Row]]:
    """Return the rows of all pages whose first cell, or headings that, name something in code quotes."""
    found: dict[str, list[Row]] = {}
    for page in sorted(DOCS.glob("*.md")):
        anchor, heads = "", list[str]()
        for line in page.read_text(encoding="utf-8").splitlines():
            if heading := re.match(r"#+ (.*)", line):
                anchor = slug(heading[1])
                if refusal := re.fullmatch(r"`([a-z_]+)`: (.*)", heading[1]):
                    said = _linked(_sentences([refusal[2]], [""]), page.name)
                    found.setdefault(refusal[1], []).append(Row(page.name, anchor, "code", said))
            if not line.startswith("|"):
                heads = []
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not heads:
                heads = cells
                continue
            named = re.fullmatch(r"((?:`\w+`(?:, | or | and )?)+)(?: \(.*\))?", cells[0])
            if named or heads[0].startswith("code"):
                said = _linked(_sentences(cells[1:], heads[1:]), page.name)
                for name in re.findall(r"`(\w+)`", cells[0]):
                    found.setdefault(name, []).append(Row(page.name, anchor, heads[0], said))
    return found


def coded() -> Mapping[str, list[Row]]:
    """Return the rows that explain an error code: those of tables headed so, and headings that are a code."""
    return {
        name: kept
        for name, rows in explained().items()
        if (kept := [row for row in rows if row.head.startswith("code")])
    }


def _sentences(cells: Sequence[str], heads: Sequence[str]) -> str:
    said = [_said(cell, head) for cell, head in zip(cells, heads, strict=False)]
    return ". ".join(_capital(each) for each in said if each)


def _said(cell: str, head: str) -> str:
    return f"Status: {cell}" if head == "status" else _SAID.get(head, {}).get(cell, cell)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _linked(text: str, page: str) -> str:
    """Return a text of a page with its links as they are from the reference."""
    text = re.sub(r"\]\(#", f"](../{page}#", text)
    return re.sub(r"\]\((?!https?:|\.\./)", "](../", text)


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


# --- the pages


def command_page() -> str:
    """Return every command with its arguments and options."""
    parts = [
        f"# Commands\n\n{_MADE}",
        "Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 something outside failed, 130 interrupted.",
    ]
    for name, command in commands(build_command()):
        words = [
            f"[{_metavar(each)}]" if not each.required else _metavar(each) for each in _arguments(command)
        ]
        parts.append(
            f"## `{name}`\n\n{_text(command.help)}\n\n```\n{' '.join([name, '[OPTIONS]', *words])}\n```"
        )
        rows = [
            *((f"`{_text(_metavar(each))}`", "", _text(each.help)) for each in _arguments(command)),
            *((_flags(each), _default(each), _text(each.help)) for each in _options(command)),
        ]
        parts.append(_table(("", "default", ""), rows))
    return _page(parts)


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _metavar(argument: Any) -> str:
    return argument.metavar + ("…" if argument.nargs == -1 else "")


def _flags(option: Any) -> str:
    kind = f" {option.metavar}" if option.metavar else ""
    return ", ".join(f"`{each}{kind}`".replace("|", "\\|") for each in (*option.opts, *option.secondary_opts))


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
    besides = {
        "kakite serve --split-editor": "The editor as one tool for each of its commands.",
        "kakite collab": "Also `text_editor` on the live pages, without `overwrite` and `preview`.",
        "kakite host": "These replace all tools of all servers if their definitions would take too much of a "
        "model's context window. `{servers}`, `{search}` and `{call}` stand for the servers' names and for "
        "the names of these two tools.",
    }
    for server, tools in offered.tools(SOURCE).items():
        parts += [f"## `{server}`", besides.get(server, "")]
        parts += [_tool(tool) for tool in tools]
    return _page(parts)


def _tool(tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    rows = [
        (
            f"`{name}`{'' if name in required else ' (may be left out)'}",
            _kind(schema),
            _text(schema.get("description")).replace("*", "\\*"),
        )
        for name, schema in tool.parameters["properties"].items()
    ]
    about = f"\n\n[More]({_TOLD_OF[tool.name]})." if tool.name in _TOLD_OF else ""
    words = f"{_paragraphs(tool.description)}\n\n*{does(tool)}*{about}"
    return f"### `{tool.name}`\n\n{words}\n\n{_table(('argument', 'type', ''), rows)}"


def does(tool: Tool) -> str:
    """Return what a tool does to the world.

    Raises:
        SystemExit: its annotations do not tell, and no text does.
    """
    if tool.open_world and tool.effect != "execute" and tool.name not in _DOES:
        raise SystemExit(
            f"the annotations of {tool.name} do not tell what it does: say it in scripts/reference.py"
        )
    return _DOES.get(tool.name) or _EFFECTS[tool.effect]


def _paragraphs(text: str) -> str:
    """Return a description with its list set apart, so that no line is taken for a part of an item."""
    apart = text.replace("\n- ", "\n\n- ", 1)
    return re.sub(r"^(- .*)\n(?![-\s])", r"\1\n\n", apart, flags=re.MULTILINE)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if inner := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_kind, inner)))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def settings(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield each setting, and after it the keys inside of it, as ``setting.key``."""
    for name, field in model.model_fields.items():
        yield f"{above}{name}", field
        for inner in _models(field.annotation):
            yield from settings(inner, f"{above}{name}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def setting_page() -> str:
    """Return every setting and every variable."""
    rows = [
        (
            f"`{name}`",
            "" if "." in name else f"`KAKITE_{name.upper()}`",
            _usual(field),
            _text(field.description),
        )
        for name, field in settings(Settings)
    ]
    rows += [(f"`{name}`", "", "", _text(told)) for name, told in EXTRA_KEYS.items()]
    rows += [("", f"`{name}`", "", _text(told)) for name, told in EXTRA_VARIABLES.items()]
    told = DOCS.glob("*.md")
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(told)}
    others = [(f"`{name}`", _mentioned(name, pages)) for name in variables()]
    return _page(
        [
            f"# Settings\n\n{_MADE}",
            "The keys of `kakite.yaml`, and the variables that mean the same. Which of them counts, and what "
            "the file of a repository may set: [settings](../agent-reference.md#settings).",
            _table(("key", "variable", "default", ""), rows),
            "## Other variables",
            _table(("variable", "described in"), others),
        ]
    )


def _usual(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", ()) or value == {} or get_origin(field.annotation) is dict:
        return ""
    shown = ", ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
    if isinstance(shown, bool):
        return f"`{str(shown).lower()}`"
    return f"`{shown}`" if isinstance(shown, str | int | float) else ""


def _mentioned(name: str, pages: Mapping[str, str]) -> str:
    found = [page for page, text in pages.items() if re.search(rf"\b{name}\b", text)]
    if not found:
        raise SystemExit(f"no page of docs/ tells of the variable {name}")
    return ", ".join(f"[{page.removesuffix('.md')}](../{page})" for page in found)


def code_page() -> str:
    """Return every error code with what it means.

    Raises:
        SystemExit: a code of the source is in no table, one of a table is nowhere in the source, or two have
            the same words.
    """
    made, told = codes(), coded()
    if missing := sorted(
        {f"{code} ({place})" for code, place in made.items() if code not in {*told, *_BASIC}}
    ):
        raise SystemExit(f"no table of docs/ explains: {', '.join(missing)}")
    if unknown := sorted({f"{code} ({rows[0].page})" for code, rows in told.items() if code not in made}):
        raise SystemExit(f"nothing in the source makes: {', '.join(unknown)}")
    _require_own_rows(told)
    rows = [(f"`{code}`", *_meaning(told.get(code, ()), _BASIC.get(code, ""))) for code in sorted(made)]
    return _page(
        [
            f"# Error codes\n\n{_MADE}",
            "Every error has a stable code, a message, and a hint that says what to do next. The command "
            "line prints the message and the hint. With `--json`, programs also get the code, as models do.",
            _table(("code", "meaning", "part"), rows),
        ]
    )


def _require_own_rows(told: Mapping[str, Sequence[Row]]) -> None:
    """Refuse codes that share their words, and words that mean nothing on another page."""
    meant: dict[tuple[str, str], str] = {}
    for code, rows in told.items():
        for row in rows:
            if re.search(r"(?:^|\. )(?:Yes|No)$", row.rest):
                raise SystemExit(f"docs/{row.page} says yes or no of {code}: _SAID must say to what")
            other = meant.setdefault((row.page, row.rest), code)
            if other != code:
                raise SystemExit(f"docs/{row.page} says the same of {other} and {code}")


def _meaning(rows: Sequence[Row], basic: str) -> tuple[str, str]:
    # A code may stand for the same thing in several parts; each part says it in its own words.
    said = {(row.page, row.anchor): row for row in reversed(rows)}.values()
    links = [f"[{row.page.removesuffix('.md')}](../{row.page}#{row.anchor})" for row in said]
    texts = list(dict.fromkeys(row.rest for row in said))
    if len(texts) > 1:
        texts = [f"*{row.page.removesuffix('.md')}:* {row.rest}" for row in said]
    return (basic or "<br>".join(texts), ", ".join(dict.fromkeys(links)))


def event_page() -> str:
    """Return every event of every stream."""
    titles = {
        "agent-web.md#events": "A run of the agent",
        "debate.md#lines-of-json": "A debate as lines of JSON",
        "collab.md#api": "A run of the assistant on a shared page",
    }
    parts = [f"# Events\n\n{_MADE}\n\nWhat programs can listen to, stream by stream."]
    known = explained()
    for place, told in offered.events(SOURCE).items():
        page, _, anchor = place.partition("#")
        rows: list[tuple[str, str]] = []
        for name, fields in told.items():
            said = [row for row in known.get(name, ()) if (row.page, row.anchor) == (page, anchor)]
            if not (said or fields):
                raise SystemExit(f"no table of docs/{page} explains the event {name}")
            text = said[0].rest if said else fields
            rows.append((f"`{name}`", text))
        parts += [
            f"## {titles[place]}",
            f"See [{page.removesuffix('.md')}](../{place}).",
            _table(("event", ""), rows),
        ]
    return _page(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(head), tuple("---" for _ in head), *rows]
    return "\n".join(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(line)} |") for line in lines)


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


def write(folder: Path) -> None:
    """Write all pages into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in PAGES.items():
        (folder / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(*sys.argv[1:2] or ["build/docs/docs/reference"]))

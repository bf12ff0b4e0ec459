"""Write the manual page from the commands themselves: ``python man/generate.py > man/kakite.1``."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from typing import Any

from typer import Context

from kakite import __version__
from kakite.cli.app import build_command
from kakite.cli.settings import EXTRA_KEYS, EXTRA_VARIABLES, Settings

ABOUT = (
    "Kakite applies the edits of AI models to your files: each one where the model meant it, or not at all.",
    "On top of that it has an MCP server, an MCP host, a coding agent, debates between agents, and pages",
    "that people and models write together. Each command has `--help`.",
)
EXITS = {
    "0": "Done.",
    "1": "It ran, and the answer is no.",
    "2": "Wrong usage or configuration.",
    "3": "Something outside failed: a model, a server, the disk.",
    "130": "Interrupted.",
}
VARIABLES = {
    "KAKITE_CONFIG": "A settings file to use instead of kakite.yaml in the current folder.",
    "KAKITE_TOKEN": "The token that clients of an HTTP server must send.",
    "KAKITE_GIT_TOKEN": "The password for the repository's server, if the address has none.",
    "KAKITE_LOG": "How much Kakite logs to standard error; WARNING by default.",
    "KAKITE_DEBUG": "If set, Kakite shows where in its code a failure happened.",
}
FILES = {
    "kakite.yaml": "Settings for the current folder. They can only restrict what is allowed.",
    "~/.config/kakite/kakite.yaml": "Your own settings.",
    "~/.local/state/kakite": "The journal of edits, runs, and everything else that Kakite keeps.",
}


def page() -> str:
    """Return the whole page."""
    root = build_command()
    lines = [
        '.\\" Written by man/generate.py; do not edit.',
        f'.TH KAKITE 1 "" "Kakite {__version__}" "User Commands"',
        ".SH NAME",
        "kakite \\- apply the edits of AI models to files right, or not at all",
        ".SH SYNOPSIS",
        ".B kakite",
        ".RI [ options ]",
        ".I command",
        ".RI [ arguments ]",
        ".SH DESCRIPTION",
        *map(_text, ABOUT),
        ".SH OPTIONS",
        *_parameters(root, Context(root, info_name="kakite")),
        ".SH COMMANDS",
        *_commands(root, None, "kakite"),
        ".SH EXIT STATUS",
        *(line for code, meaning in EXITS.items() for line in (".TP", f".B {code}", _text(meaning))),
        ".SH ENVIRONMENT",
        *_named(VARIABLES),
        ".PP",
        _text("Each setting has a variable. It counts more than files, and less than options:"),
        *_named(
            {
                f"KAKITE_{name.upper()}": f"{field.description}."
                for name, field in Settings.model_fields.items()
            }
            | {name: f"{told}." for name, told in EXTRA_VARIABLES.items()}
        ),
        ".PP",
        _text("A file may also have these keys, which have no variable:"),
        *_named({name: f"{told}." for name, told in EXTRA_KEYS.items()}),
        ".SH FILES",
        *_named(FILES),
        ".SH SEE ALSO",
        ".BR git (1),",
        ".BR bwrap (1)",
    ]
    return "\n".join(lines) + "\n"


def _commands(command: Any, parent: Context | None, name: str) -> Generator[str]:
    context = Context(command, parent=parent, info_name=name)
    for inner_name in command.list_commands(context):  # in the order of the help
        inner = command.commands[inner_name]
        if inner.hidden and not getattr(inner, "commands", None):
            continue
        path = f"{context.command_path} {inner_name}"
        inner_context = Context(inner, parent=context, info_name=inner_name)
        if not hasattr(inner, "commands") or inner.params:
            usage = " ".join((path, *inner.collect_usage_pieces(inner_context)))
            yield f'.SS "{_text(_plain(usage))}"'
            yield from _paragraphs(inner.help or "")
            yield from _parameters(inner, inner_context)
        if hasattr(inner, "commands"):
            yield from _commands(inner, context, inner_name)


def _parameters(command: Any, context: Context) -> Generator[str]:
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            name, told = record
            yield from (".TP", f".B {_text(name.strip())}", _text(told or "See above."))


def _paragraphs(told: str) -> Generator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", told.replace("\f", "").strip())):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _plain(usage: str) -> str:
    """Return a usage without the library's sign for what must be there: ``{DIR}``."""
    return re.sub(r"\{([^{}]*)\}", r"\1", usage)


def _named(entries: dict[str, str]) -> Generator[str]:
    for name, told in entries.items():
        yield from (".TP", f".B {_text(name)}", _text(told))


def _text(words: str) -> str:
    """Return words as roff shows them to the letter: as they are typed, also hyphens and quotes."""
    plain = " ".join(words.split()).replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    plain = plain.replace("`", "\\(ga").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    plain = "".join(letter if ord(letter) < 128 else f"\\[u{ord(letter):04X}]" for letter in plain)
    return f"\\&{plain}" if plain.startswith(".") else plain


if __name__ == "__main__":
    sys.stdout.write(page())

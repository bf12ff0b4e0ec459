"""The entry for the ACP registry, by the rules that its schema and its checks have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from scripts.packages import describe_agent, load_facts
from typer.main import get_command

from kakite import __version__
from kakite.cli.app import app

FOLDER = Path(__file__).parents[2] / "packaging/acp"
TEXT = {"type": "string", "minLength": 1}
URI = {"type": "string", "pattern": "^https://"}
PACKAGE = {
    "type": "object",
    "required": ["package"],
    "additionalProperties": False,
    "properties": {
        "package": TEXT,
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
RULES = {
    "type": "object",
    "required": ["id", "name", "version", "description", "license_url", "distribution"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": TEXT,
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "description": TEXT,
        "repository": URI,
        "website": URI,
        "authors": {"type": "array", "items": {"type": "string"}},
        "license": {"type": "string"},
        "license_url": URI,
        "distribution": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {"npx": PACKAGE, "uvx": PACKAGE},
        },
    },
}
"""What the registry asks of an entry that is a package."""


def load_entry() -> dict[str, Any]:
    return json.loads(json.dumps(describe_agent(load_facts())))


def test_the_entry_is_one_of_the_registry_and_of_this_version() -> None:
    entry = load_entry()
    jsonschema.validate(entry, RULES)
    assert entry["version"] == __version__
    package = entry["distribution"]["uvx"]
    assert package["package"] == f"kakite[acp]=={__version__}"
    command: Any = get_command(app)
    assert package["args"][0] in command.commands


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Kakite"},
        {"version": "1"},
        {"distribution": {}},
        {"distribution": {"uvx": {"package": "kakite", "cmd": "kakite"}}},
        {"more": 1},
    ],
)
def test_what_breaks_a_rule_is_found(change: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**load_entry(), **change}, RULES)


def test_the_icon_is_small_square_and_has_no_colour_of_its_own() -> None:
    root = ElementTree.fromstring((FOLDER / "icon.svg").read_text(encoding="utf-8"))
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    for each in root.iter():
        for name in ("fill", "stroke"):
            assert each.get(name) in {None, "none", "currentColor"}
        assert not re.search(r"#|rgb", each.get("style", ""))

"""With ``--json`` every command that fails says so on standard output in one form."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.program import kakite
from tests.repositories import git


@pytest.mark.parametrize(
    ("line", "code", "ended"),
    [
        ("agent show nosuch", "task_unknown", 2),
        ("agent logs nosuch", "task_unknown", 2),
        ("agent resume nosuch", "run_unknown", 2),
        ("agent rm nosuch", "task_unknown", 2),
        ("agent list --engine bad", "bad_usage", 2),
        ("agent run x", "model_missing", 2),
        ("agent submit x", "model_missing", 2),
        ("undo x", "nothing_to_undo", 1),
        ("host accept x", "unknown_server", 2),
        ("host call a b", "unknown_server", 2),
        ("debate ask x --resume nosuch", "", None),
        ("edit", "no_edits", 1),
    ],
)
def test_a_failure_is_an_error_with_code_message_and_hint(
    line: str, code: str, ended: int | None, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet")
    done = kakite(*line.split(), "--json", home=tmp_path, cwd=tmp_path)
    said = json.loads(done.stdout.strip())
    assert said["error"].keys() == {"code", "message", "hint"}
    assert said["error"]["message"]
    if code:
        assert (said["error"]["code"], done.code) == (code, ended)
    assert f"({said['error']['code']})" in done.stderr


def test_an_argument_that_is_no_text_is_named_in_it_all_the_same(tmp_path: Path) -> None:
    done = kakite("agent", "show", os.fsdecode(b"no\xff"), "--json", home=tmp_path)
    assert (json.loads(done.stdout)["error"]["code"], done.code) == ("task_unknown", 2)

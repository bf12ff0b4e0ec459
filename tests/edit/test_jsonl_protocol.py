"""The engine from any language: ``kakite edit --jsonl``."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kakite.edit.jsonl_protocol import JsonlSession, answer_line


def ask(**request: object) -> dict[str, Any]:
    return json.loads(answer_line(json.dumps(request)))


def test_an_edit_is_answered_with_text_places_and_diff() -> None:
    answer = ask(id=[1], text="\ta\n\tb\n", edits=[{"search": "a\nb\n", "replace": "a\nc\n", "line": 1}])
    assert answer == {
        "id": [1],
        "ok": True,
        "text": "\ta\n\tc\n",
        "applied": [{"index": 0, "line": 1, "lines": 2, "match": "indentation", "forgiven": ["indentation"]}],
        "diff": "--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n \ta\n-\tb\n+\tc\n",
    }


def test_a_refusal_is_answered_with_candidates() -> None:
    answer = ask(text="a\nb\na\n", edits=[{"search": "a", "replace": "c"}])
    [failure] = answer["failures"]
    assert (answer["ok"], answer["id"], failure["index"], failure["code"]) == (False, None, 0, "ambiguous")
    assert [candidate["line"] for candidate in failure["candidates"]] == [1, 3]
    assert set(failure) == {"index", "code", "message", "hint", "candidates"}


def test_bytes_in_give_bytes_out() -> None:
    data = "日本語の設定\r\n値 = 1\r\n".encode("cp932")
    answer = ask(text_b64=base64.b64encode(data).decode(), edits=[{"search": "値 = 1", "replace": "値 = 2"}])
    assert base64.b64decode(answer["text_b64"]) == data.replace(b"= 1", b"= 2")
    assert "text" not in answer


def test_a_reply_is_parsed_and_applied() -> None:
    answer = ask(
        text="a\n", reply="<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", format="search_replace"
    )
    assert answer["text"] == "b\n"


def test_a_malformed_reply_says_what_is_wrong() -> None:
    answer = ask(text="a\n", reply="<<<<<<< SEARCH\na\n")
    assert (answer["failures"][0]["index"], answer["failures"][0]["code"]) == (-1, "marker_sequence")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{",
        "null",
        '{"text": "a"}',
        '{"text": 1, "edits": []}',
        '{"text": "a", "text_b64": "YQ==", "edits": []}',
        '{"text_b64": "*", "edits": []}',
        '{"text": "a", "edits": {}}',
        '{"text": "a", "edits": [1]}',
        '{"text": "a", "edits": [{"search": "a"}]}',
        '{"text": "a", "edits": [{"search": "a", "replace": "b", "line": "1"}]}',
        '{"text": "a", "edits": [{"search": "a", "replace": "b", "line": true}]}',
        '{"text": "a", "edits": [{"search": "a", "replace": "b", "all": 1}]}',
        '{"text": "a", "edits": [], "reply": "x"}',
        '{"text": "a", "edits": [], "accept": "x"}',
        '{"text": "a", "accept": 1}',
        '{"accept": "x"}',
        '{"text": "a", "reply": 1}',
        '{"text": "a", "reply": "x", "format": "yaml"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_request_is_answered_as_such(line: str) -> None:
    answer = json.loads(answer_line(line))
    assert answer["ok"] is False
    assert answer["failures"][0]["code"] == "bad_request"


@pytest.mark.parametrize(
    ("request_keys", "edit_keys", "named"),
    [
        ({}, {"replace_all": True}, '"all"'),
        ({}, {"serach": "a"}, '"search"'),
        ({}, {"lines": 1}, '"line"'),
        ({"partial": True}, {}, "use one of id, text"),
        ({"edit": []}, {}, '"edits"'),
    ],
)
def test_a_key_that_would_be_passed_over_is_refused_with_the_nearest_known_one(
    request_keys: dict[str, object], edit_keys: dict[str, object], named: str
) -> None:
    edit = {"search": "a", "replace": "b", **edit_keys}
    answer = ask(id=7, text="a\n", edits=[edit], **request_keys)
    assert (answer["id"], answer["ok"]) == (7, False)
    assert answer["failures"][0]["code"] == "bad_request"
    assert named in answer["failures"][0]["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_not_echoed(number: str) -> None:
    answer = answer_line(f'{{"id": {number}, "text": "a", "edits": []}}')
    assert json.loads(answer, parse_constant=pytest.fail)["failures"][0]["code"] == "bad_request"


def test_lone_surrogates_come_back() -> None:
    assert ask(text="\ud800 a", edits=[{"search": "a", "replace": "b"}])["text"] == "\ud800 b"


def test_an_id_that_nobody_knows_is_answered_with_a_code() -> None:
    answer = ask(id=3, text="a", accept="0123456789")
    assert (answer["id"], answer["ok"]) == (3, False)
    assert (answer["failures"][0]["index"], answer["failures"][0]["code"]) == (-1, "suggestion_gone")


TEXT = "def f():\r\n    # a note\r\n    return 1\r\n"
STALE = {"search": "def f():\n    return 1\n", "replace": "def f():\n    return 2\n"}
"""Leaves out the comment, so that it is refused, and it is clear what it means."""


def suggested(lines: JsonlSession, **request: object) -> dict[str, Any]:
    """Make a request that is refused, and return the suggestion that all of its failures have."""
    failures = json.loads(lines.answer(json.dumps(request)))["failures"]
    assert {failure["suggestion"]["id"] for failure in failures} == {failures[0]["suggestion"]["id"]}
    return failures[0]["suggestion"]


def accept(lines: JsonlSession, **request: object) -> dict[str, Any]:
    return json.loads(lines.answer(json.dumps(request)))


def test_what_a_refusal_suggests_is_accepted_by_its_id() -> None:
    lines = JsonlSession()
    suggestion = suggested(lines, text=TEXT, edits=[STALE])
    assert suggestion["line"] == 3
    assert "-    return 1" in suggestion["diff"]
    answer = accept(lines, id=7, text=TEXT, accept=suggestion["id"])
    wanted = TEXT.replace("1", "2")
    assert (answer["id"], answer["ok"], answer["text"], answer["applied"]) == (7, True, wanted, [])
    assert "+    return 2" in answer["diff"]
    assert accept(lines, text=TEXT, accept=suggestion["id"])["text"] == wanted
    for other in (wanted, "", TEXT + " "):
        refused = accept(lines, text=other, accept=suggestion["id"])
        assert refused["failures"][0]["code"] == "suggestion_gone"


def test_it_holds_for_the_text_as_it_was_given() -> None:
    lines, data = JsonlSession(), TEXT.encode("utf-16")
    given = base64.b64encode(data).decode()
    suggestion = suggested(lines, text_b64=given, edits=[STALE])
    answer = accept(lines, text_b64=given, accept=suggestion["id"])
    assert base64.b64decode(answer["text_b64"]) == TEXT.replace("1", "2").encode("utf-16")
    refused = accept(lines, text=TEXT, accept=suggestion["id"])
    assert refused["failures"][0]["code"] == "suggestion_gone"


def test_one_id_stands_for_all_edits_of_a_request_if_every_failure_has_a_suggestion() -> None:
    lines, other = JsonlSession(), "import os\r\n" + TEXT
    edits = [STALE, {"search": "import os", "replace": "import io"}]
    suggestion = suggested(lines, text=other, edits=edits)
    answer = accept(lines, text=other, accept=suggestion["id"])
    assert answer["text"] == other.replace("1", "2").replace("os", "io")
    nowhere = {"search": "nothing like it at all", "replace": ""}
    failures = accept(lines, text=other, edits=[*edits, nowhere])["failures"]
    assert ["suggestion" in failure for failure in failures] == [True, False]
    answer = accept(lines, text=other, accept=failures[0]["suggestion"]["id"])
    assert answer["text"] == other.replace("1", "2")


LOSS = {
    "search": "def f():\n    # a note\n    return 1\n",
    "replace": "def f(x):\n    # ... rest of the code\n",
}


def test_a_loss_is_no_suggestion_and_is_accepted_by_its_own_id() -> None:
    lines, other = JsonlSession(), "import os\n" + TEXT.replace("\r", "")
    (failure,) = accept(lines, text=other, edits=[LOSS])["failures"]
    assert (failure["code"], "suggestion" in failure) == ("placeholder", False)
    answer = accept(lines, text=other, accept=failure["loss"]["id"])
    assert answer["text"] == "import os\n" + LOSS["replace"]


def test_a_suggestion_lands_without_the_loss_beside_it() -> None:
    lines, other = JsonlSession(), TEXT + "a = load()\r\nb = check(a)\r\n"
    edits = [STALE, {"search": "a = load()\nb = check(a)\n", "replace": "# ... rest of the code\n"}]
    failures = accept(lines, text=other, edits=edits)["failures"]
    assert [sorted({"suggestion", "loss"} & failure.keys()) for failure in failures] == [
        ["suggestion"],
        ["loss"],
    ]
    answer = accept(lines, text=other, accept=failures[0]["suggestion"]["id"])
    assert answer["text"] == other.replace("return 1", "return 2")


def test_a_fence_around_search_is_named_and_the_edit_is_suggested_without_it() -> None:
    lines, text = JsonlSession(), "def f():\n    return 1\n"
    edit = {"search": f"```python\n{text}```\n", "replace": "def f():\n    return 2\n"}
    (failure,) = accept(lines, text=text, edits=[edit])["failures"]
    assert (failure["code"], "fence" in failure["message"]) == ("near_miss", True)
    assert accept(lines, text=text, accept=failure["suggestion"]["id"])["text"] == edit["replace"]
    nowhere = {"search": "```\nnothing(like, it)\n```", "replace": ""}
    (failure,) = accept(lines, text=text, edits=[nowhere])["failures"]
    assert (failure["code"], "fence" in failure["message"]) == ("not_found", True)


@pytest.mark.parametrize("line", [0, -1])
def test_a_line_that_no_text_has_is_no_request(line: int) -> None:
    answer = ask(text="a\n", edits=[{"search": "a", "replace": "b", "line": line}])
    assert answer["failures"][0]["code"] == "bad_request"

"""A debate written down: nothing is lost, nothing is live, nothing is a secret, nothing is written over."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kakite.debate import rounds
from kakite.debate.answers import Answer
from kakite.debate.model import Debate, Decision
from kakite.debate.prompt import reveal_names
from kakite.debate.rounds import DebateEvent, replay
from kakite.debate.transcript.files import create_slug, write_transcript
from kakite.debate.transcript.html import render_html
from kakite.debate.transcript.markdown import render_markdown
from kakite.debate.transcript.model import SCHEMA, build_transcript
from tests.agent.pages import chromium
from tests.debate.arguing import answer, answered, failure, judging, terms
from tests.debate.courses import HOSTILE, courses

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
_NAMES = """html head meta title style body header p span h1 h2 h3 h4 h5 h6 dl div dt dd details summary main
section article ul ol li strong em code pre table caption thead tbody tr th td blockquote hr br a footer"""
_TAGS = frozenset(_NAMES.split())
_VOID = {"meta", "hr", "br"}
_ATTRIBUTES = {"class", "lang", "charset", "http-equiv", "content", "name", "href", "rel", "scope", "start"}


class Page(HTMLParser):
    """Checks that a page is well-formed and that nothing in it is live."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        for name, value in attrs:
            assert name in _ATTRIBUTES, name
            if name == "href":
                assert (value or "").startswith(("http://", "https://")), value
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")


def read(page: str) -> Page:
    parsed = Page()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    return parsed


def example() -> Debate:
    debate = answered(rounds.begin("Why?\n\nIn detail.", terms(), "Because."))
    debate = answered(
        debate,
        lambda side: judging(
            debate, side, {"claude" if side == "codex" else "codex": "reject"}, "no price", claim=f"{side}!"
        ),
    )
    debate = rounds.on_decision(debate, Decision(kind="adopt", side="codex", text="but cheaper"))
    return answered(
        debate,
        lambda side: (
            answer("done", seconds=2.5, input_tokens=7, version="codex-cli 0.169.0")
            if side == "codex"
            else failure(code="rate_limited", message="no more", hint="wait", stderr_tail="HTTP 429")
        ),
    )


@given(events=courses())
def test_the_json_is_json_and_loses_no_reply(events: list[DebateEvent]) -> None:
    debate = replay(events)
    shape = build_transcript(debate)
    assert json.loads(json.dumps(shape)) == shape
    assert shape["schema"] == SCHEMA
    rounds = [held for turn in shape["turns"] for held in turn["rounds"]]
    assert [{each["side"] for each in held["replies"]} for held in rounds] == [
        set(held.replies) for held in debate.rounds
    ]
    for held, kept in zip(rounds, debate.rounds, strict=True):
        for each in held["replies"]:
            reply = kept.replies[each["side"]]
            if isinstance(reply, Answer):
                assert each["text"] == reveal_names(debate, held["number"], each["side"], reply.text)
            else:
                assert each["message"] == reply.message
    assert [each["decision"] is None for each in shape["turns"]] == [
        each.decision is None for each in debate.turns
    ]


@given(events=courses())
def test_nothing_in_the_page_is_live_whatever_was_said(events: list[DebateEvent]) -> None:
    page = render_html(build_transcript(replay(events)))
    text = read(page).text
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    assert "Where it stands" in text


@given(events=courses())
def test_nothing_in_the_markdown_is_live_whatever_was_said(events: list[DebateEvent]) -> None:
    text = render_markdown(build_transcript(replay(events)))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    found = {each.type for each in tokens} | {each.type for token in tokens for each in token.children or []}
    assert not found & {"html_block", "html_inline", "image"}
    assert "\u202e" not in text
    titles = [
        tokens[at + 1].content
        for at, each in enumerate(tokens)
        if each.type == "heading_open" and not each.level
    ]
    assert all(
        re.match(
            r"Round \d+: |How it ended|How the sides rank|The person decided|What |codex|claude|third", each
        )
        for each in titles[1:]
    )


def test_all_that_a_reader_wants_is_in_each_form() -> None:
    shape = build_transcript(example())
    texts = [render_markdown(shape), read(render_html(shape)).text]
    for text in texts:
        for said in (
            *("Why?", "In detail.", "Because.", "codex in 1", "claude in 1", "codex!", "claude!"),
            *("rejects", "no price", "The person decided: go on from the answer of codex", "but cheaper"),
            *("rate", "no more", "wait", "HTTP 429", "2.5 s", "7 tokens", "each answers alone"),
            "codex-cli 0.169.0",
        ):
            assert said in text, said
    assert shape["spent"]["tokens"] == 7
    assert shape["turns"][0]["rounds"][1]["matrix"] == {
        "codex": {"claude": "reject"},
        "claude": {"codex": "reject"},
    }
    assert [held["agreement"] for held in shape["turns"][0]["rounds"]] == ["unknown", "disagree"]


def test_key_points_verdicts_and_notes_are_lists_of_their_own() -> None:
    debate = answered(rounds.begin("Why?", terms()))
    debate = answered(
        debate,
        lambda side: replace(
            judging(debate, side, {"claude" if side == "codex" else "codex": "reject"}, "dear"),
            key_points=("a point",),
            notes=("a note",),
        ),
    )
    text = render_markdown(build_transcript(debate))
    told = [each.content for each in MarkdownIt("commonmark").parse(text) if each.type == "inline"]
    codex = told[told.index("a point") - 1 :]
    assert codex[:7] == [
        *("Key points:", "a point", "Of the others:", "**codex** on **claude**: rejects"),
        *("against it: dear", "Notes:", "a note"),
    ]


def test_what_stays_disagreed_on_is_told_first() -> None:
    debate = answered(rounds.begin("Why?", terms()))
    debate = answered(
        debate, lambda side: judging(debate, side, {"codex": "reject", "claude": "reject"}, "dear")
    )
    shape = build_transcript(debate)
    assert {(each["by"], each["on"], *each["issues"]) for each in shape["dissent"]} == {
        ("codex", "claude", "dear"),
        ("claude", "codex", "dear"),
    }
    for text in (render_markdown(shape), read(render_html(shape)).text):
        assert text.index("What is not agreed on") < text.index("Round 1")


def test_no_secret_is_in_any_file(tmp_path: Path) -> None:
    key = "sk-ant-" + "a" * 30
    debate = answered(
        rounds.begin(f"Is {key} a key?", terms()), lambda side: answer(f"{side}: hunter2hunter2 {key}")
    )
    files = list(write_transcript(debate, tmp_path, environ={"SOME_TOKEN": "hunter2hunter2"}, now=DAY))
    assert set(files) == {file for file in tmp_path.rglob("*") if file.is_file()} != set()
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "hunter2" not in text
        assert key not in text
        assert "[redacted]" in text or "\\[redacted\\]" in text


def test_no_file_is_written_over_and_none_is_left_half(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    first = write_transcript(example(), folder, environ={}, now=DAY)
    assert [file.name for file in first] == [
        f"2026-03-01-why-in-detail.{end}" for end in ("md", "json", "html")
    ]
    before = [file.read_bytes() for file in first]
    (folder / "2026-03-01-why-in-detail-2.html").write_bytes(b"mine")
    third = write_transcript(example(), folder, environ={}, now=DAY)
    assert [file.stem for file in third] == ["2026-03-01-why-in-detail-3"] * 3
    assert [file.read_bytes() for file in first] == before
    assert len(list(folder.iterdir())) == 7
    assert all(file.stat().st_mode & 0o077 == 0 for file in first)


@given(text=st.text())
def test_a_name_is_a_name_of_a_file_whatever_the_topic(text: str) -> None:
    name = create_slug(text, 60)
    assert 0 < len(name.encode()) < 200
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.md").write_bytes(b"x")
    assert not name.startswith((".", "-"))


@pytest.fixture
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium on this system: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_whole_and_runs_none_of_it(width: int, browser: Browser, tmp_path: Path) -> None:
    debate = answered(
        rounds.begin(f"Why? {HOSTILE}", terms()),
        lambda side: answer(
            f"{side} {HOSTILE}\n\n```\n{'x' * 300}\n```\n\n| a | b |\n|---|---|\n| {'y' * 90} | 2 |"
        ),
    )
    page = write_transcript(debate, tmp_path, environ={}, now=DAY)[2]
    tab = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    assert complaints == []
    assert asked == [page.as_uri()]
    assert tab.locator("article").count() == 2
    left, right = (tab.locator("article").nth(at).bounding_box() for at in range(2))
    assert left
    assert right
    assert (left["x"] < right["x"]) == (width > 1000)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("img, script, iframe").count() == 0

"""What happened in a run, as events and as a page."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kakite.agent.observe.event_log import build_event_log, redact_events
from kakite.agent.observe.renderers.atif import build_trajectory, render_atif
from kakite.agent.observe.renderers.html import render_html
from kakite.agent.observe.renderers.jsonl import render_json_lines, to_json_objects
from kakite.agent.observe.renderers.markdown import render_markdown
from kakite.agent.observe.renderers.page import render_page_events
from kakite.agent.run import compaction, state_machine
from kakite.agent.run.limits import RunUsage, UsageLimits
from kakite.agent.run.state import ProjectInstruction, RunState, RunStep
from kakite.agent.run.store import RunStore
from kakite.cli.agent.tasks import export
from kakite.errors import UsageError
from kakite.models.messages import Reply, ToolMessage, UserMessage
from kakite.redaction import Redaction
from kakite.terminal_text import escape_control
from kakite.tools.toolset import ToolResult
from tests.agent.runs import DIFF, PLAN, USED, call_of, finished_run, runs, task_of, texts
from tests.cli.program import kakite

SECRET = "correct horse battery"


def told_of(run: RunState) -> list[dict[str, Any]]:
    return to_json_objects(build_event_log(run))


def page_of(run: RunState) -> str:
    return render_html(build_event_log(run))


def kinds(run: RunState) -> list[str]:
    return [f"{each['type']}:{each.get('kind', '')}".rstrip(":") for each in told_of(run)]


@given(runs())
def test_every_message_call_and_step_is_one_event_in_the_order_it_came(run: RunState) -> None:
    events = told_of(replace(run, findings=()))
    said = [
        each["id"] if each["type"] == "result" else each["text"] for each in events if each["type"] in _SAID
    ]
    expected = [each.call_id if isinstance(each, ToolMessage) else each.text for each in run.messages]
    assert said == expected
    calls = [call.id for each in run.messages if isinstance(each, Reply) for call in each.calls]
    assert [each["id"] for each in events if each["type"] == "call"] == calls
    steps = [each["text"] for each in events if each["type"] == "step"]
    assert steps == [step.text for step in run.steps if step.kind != "tool"]
    assert [each["seq"] for each in events] == [*range(1, len(events) + 1)]
    assert [events[0]["type"], events[-1]["type"]] == ["task", "state"]


_SAID = {"told", "reply", "result"}


@given(runs())
def test_a_result_has_the_outcome_of_its_own_step(run: RunState) -> None:
    results = [each for each in told_of(run) if each["type"] == "result"]
    steps = [step for step in run.steps if step.kind == "tool"]
    assert [(each["ok"], each["code"], each["seconds"]) for each in results] == [
        (step.ok, step.code, step.seconds) for step in steps
    ]


def test_what_we_did_stands_after_the_reply_that_led_to_it() -> None:
    assert kinds(finished_run()) == [
        *("task", "told", "reply", "step:plan", "told"),
        *("reply", "call", "call", "result", "result"),
        *("reply", "step:check", "step:commit", "step:push", "state"),
    ]


def test_where_the_model_was_shown_less_stands_before_the_reply_to_that() -> None:
    begun = state_machine.on_reply(
        state_machine.create_run_state(task_of(), "base0"), Reply(text=PLAN, usage=USED)
    )
    asked = Reply(text="", calls=(call_of(1, command="view"),), finish="tool_calls", usage=USED)
    called = state_machine.on_tool_finished(state_machine.on_reply(begun, asked), ToolResult(text="x"), 0.1)
    run = state_machine.on_reply(
        compaction.add_compaction_step(called, 91_000, 30_000), Reply(text="more", usage=USED)
    )
    assert kinds(run)[3:] == [
        "step:plan",
        "told",
        "reply",
        "call",
        "result",
        "step:context",
        "reply",
        "state",
    ]
    assert "30,000 tokens instead of 91,000" in Reader(page_of(run)).text


def test_rules_limits_and_which_of_them_were_reached_are_told() -> None:
    run = finished_run()
    limited = replace(run.task, budget=UsageLimits(usd=0.5, tokens=1_200_000), daily=UsageLimits(usd=20.0))
    rules = (
        ProjectInstruction(path="AGENTS.md", text="Be brief."),
        ProjectInstruction(path="CLAUDE.md", text="x"),
    )
    spent = RunUsage(usd=0.5, tokens=330, seconds=2.0, calls=2)
    run = replace(run, task=limited, rules=rules, spent=spent, reached=("usd",), status="budget")
    told = told_of(run)
    assert told[0]["rules"] == ["AGENTS.md", "CLAUDE.md"]
    assert told[-1]["reached"] == ["usd"]
    assert told[-1]["budget"] == {"usd": 0.5, "tokens": 1_200_000, "seconds": None, "calls": None}
    assert told[-1]["daily"]["usd"] == 20.0
    assert told[-1]["spent"]["tokens"] == 330
    shown = Reader(page_of(run)).text
    for text in ("AGENTS.md, CLAUDE.md", "0.50 of 0.50 USD; 330 of 1,200,000 tokens; 20.00 USD a day"):
        assert text in shown
    assert "limits reachedusd" in shown


def test_a_result_tells_what_it_changed() -> None:
    changed, broken = [each for each in told_of(finished_run()) if each["type"] == "result"]
    assert changed["diff"] == DIFF
    assert (broken["diff"], broken["code"]) == ("", "bad_arguments")


@given(runs())
def test_a_line_of_json_is_the_event_and_nothing_that_a_terminal_obeys(run: RunState) -> None:
    lines = [*render_json_lines(build_event_log(run))]
    assert [json.loads(line) for line in lines] == told_of(run)
    assert all(line == escape_control(line) and line.count("\n") == 1 for line in lines)


@given(runs(), st.sampled_from(["text", "summary", "diff"]))
def test_no_secret_is_told_wherever_it_stands(run: RunState, field: str) -> None:
    told_secret = UserMessage(text=f"it is {SECRET} or ghp_{'a' * 36}")
    run = replace(run, messages=(*run.messages, told_secret), task=replace(run.task, text=SECRET))
    run = replace(run, **{field: SECRET}) if field != "text" else run
    events = redact_events(build_event_log(run), Redaction([SECRET]))
    page = json.dumps(render_page_events(events))
    trajectory = render_atif(events)
    lines = "".join(render_json_lines(events))
    for text in (lines, render_html(events), render_markdown(events), trajectory, page):
        assert SECRET not in text
        assert "ghp_" not in text
    assert to_json_objects(events)[-1]["input_tokens"] == run.usage.input_tokens


def test_no_secret_is_told_in_what_a_tool_was_called_with() -> None:
    begun = state_machine.on_reply(
        state_machine.create_run_state(task_of(), "base0"), Reply(text=PLAN, usage=USED)
    )
    call = call_of(1, command=f"echo {SECRET}", api_key="xyz")
    run = state_machine.on_reply(begun, Reply(text="", calls=(call,), finish="tool_calls", usage=USED))
    told = to_json_objects(redact_events(build_event_log(run), Redaction([SECRET])))
    [called] = [each for each in told if each["type"] == "call"]
    assert called["arguments"] == {"command": "echo [redacted]", "api_key": "[redacted]"}


class Reader(HTMLParser):
    """What a browser would take a page for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@given(runs())
def test_no_text_of_a_run_becomes_markup_or_turns_the_writing(run: RunState) -> None:
    page = page_of(run)
    read = Reader(page)
    assert not {"script", "img", "link", "iframe", "a", "form"} & {*read.tags}
    assert read.names <= {"lang", "charset", "http-equiv", "content", "name", "class", "open"}
    assert page == escape_control(page)
    for message in run.messages:
        assert escape_control(message.text).strip("\n") in read.text or isinstance(message, Reply)


def test_the_page_needs_nothing_from_elsewhere_and_shows_all() -> None:
    page = page_of(finished_run(result="the result 日本語"))
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not {"http://", "https://", "url(", "@import", "src="} & {part for part in _PARTS if part in page}
    shown = Reader(page).text
    for text in ("the result 日本語", "a is 2", "+a = 2", "done", "3 of 20", "$0.0030"):
        assert text in shown
    assert "not checked" not in shown


def test_work_that_was_not_checked_is_shown_as_such() -> None:
    check = RunStep(kind="check", text="make test", ok=False, code="denied", seconds=0.0)
    run = finished_run(check=check)
    assert told_of(run)[-1]["doubt"] == "not checked: `make test` was not approved"
    assert "done, not checked: `make test` was not approved" in Reader(page_of(run)).text


@given(runs(), texts)
def test_no_text_of_a_run_is_live_in_markdown(run: RunState, task: str) -> None:
    run = replace(run, task=replace(run.task, text=task or "Make a 2"), summary=task)
    document = render_markdown(build_event_log(run))
    assert document == escape_control(document)
    tokens = MarkdownIt("commonmark").parse(document)
    inner = [each for token in tokens for each in token.children or []]
    assert {each.type for each in (*tokens, *inner)} <= _PLAIN
    fenced = {token.content.strip("\n") for token in tokens if token.type == "fence"}
    for message in run.messages:
        said = escape_control(message.text).strip("\n")
        assert said in fenced or not message.text.strip()


_PLAIN = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text", "code_inline"),
    *("bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close"),
    *("list_item_open", "list_item_close", "fence", "softbreak"),
}


def test_markdown_tells_what_was_planned_called_and_changed() -> None:
    document = render_markdown(build_event_log(finished_run(say="```\n<b>")))
    for text in ("# Make a 2\n", "1. `look`\n", "### Calls `text_editor`\n", f"```diff\n{DIFF}```\n"):
        assert text in document
    assert "````text\n```\n<b>\n````\n" in document
    assert "cost: $0.0030" in document


def test_what_was_forgiven_and_how_a_command_ended_are_told() -> None:
    begun = state_machine.on_reply(
        state_machine.create_run_state(task_of(), "base0"), Reply(text=PLAN, usage=USED)
    )
    call = call_of(1, command="str_replace", path="a.py")
    asked = state_machine.on_reply(begun, Reply(text="", calls=(call,), finish="tool_calls", usage=USED))
    details = {"forgiven": ["indentation"], "exit_code": 3}
    run = state_machine.on_tool_finished(asked, ToolResult(text="x", details=details), 0.1)
    [result] = [each for each in told_of(run) if each["type"] == "result"]
    assert (result["forgiven"], result["exit_code"]) == (["indentation"], 3)
    assert result["title"] == "text_editor: str_replace a.py"


@given(runs())
def test_a_trajectory_has_every_message_and_each_result_beside_its_call(run: RunState) -> None:
    told = build_trajectory(build_event_log(run))
    steps = told["steps"]
    assert [step["step_id"] for step in steps] == [*range(1, len(steps) + 1)]
    said = [step["message"] for step in steps if step["source"] != "system"]
    assert said == [each.text for each in run.messages if not isinstance(each, ToolMessage)]
    assert [step["message"] for step in steps if step["source"] == "system"] == [
        step.text for step in run.steps if step.kind != "tool"
    ]
    results: list[tuple[str, str]] = []
    for step in steps:
        called = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        answered = step.get("observation", {"results": []})["results"]
        assert [each["source_call_id"] for each in answered] == called[: len(answered)]
        results += [(each["source_call_id"], each["content"]) for each in answered]
    given_back = [(each.call_id, each.text) for each in run.messages if isinstance(each, ToolMessage)]
    assert sorted(results) == sorted(given_back)


@given(runs())
def test_the_totals_of_a_trajectory_are_the_sums_of_its_steps(run: RunState) -> None:
    told = build_trajectory(build_event_log(run))
    used = [step["metrics"] for step in told["steps"] if "metrics" in step]
    totals = told["final_metrics"]
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        assert totals[f"total_{name}"] == sum(each[name] for each in used)
    assert totals["total_cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in used))
    assert totals["total_steps"] == len(told["steps"])
    assert totals["total_prompt_tokens"] == totals["extra"]["input_tokens"] == run.usage.input_tokens


@given(runs())
def test_a_trajectory_as_json_is_the_value_and_nothing_that_a_terminal_obeys(run: RunState) -> None:
    events = build_event_log(run)
    text = render_atif(events)
    assert json.loads(text) == build_trajectory(events)
    assert text == escape_control(text)


def test_a_trajectory_tells_what_was_no_json_what_failed_and_how_it_ended() -> None:
    told = build_trajectory(build_event_log(finished_run()))
    [acted] = [step for step in told["steps"] if "tool_calls" in step]
    changed, broken = acted["tool_calls"]
    assert (changed["function_name"], changed["arguments"]["path"]) == ("text_editor", "a.py")
    assert (broken["arguments"], broken["extra"]) == ({}, {"raw": "{"})
    edited, failed = (each["extra"] for each in acted["observation"]["results"])
    assert (edited["ok"], edited["diff"]) == (True, DIFF)
    assert (failed["ok"], failed["code"]) == (False, "bad_arguments")
    assert [step["extra"]["kind"] for step in told["steps"] if step["source"] == "system"] == [
        *("plan", "check", "commit", "push")
    ]
    assert (told["extra"]["status"], told["extra"]["patch"]) == ("done", DIFF)
    assert told["agent"]["model_name"] == "scripted:t"


def test_a_run_without_a_known_price_has_no_cost_in_its_trajectory() -> None:
    begun = state_machine.create_run_state(task_of(), "base0")
    run = state_machine.on_reply(begun, Reply(text=PLAN, usage=replace(USED, cost_usd=None)))
    told = build_trajectory(build_event_log(run))
    assert "total_cost_usd" not in told["final_metrics"]
    assert all("cost_usd" not in step.get("metrics", {}) for step in told["steps"])


def test_a_run_in_which_nothing_was_said_has_a_step_all_the_same() -> None:
    run = replace(state_machine.create_run_state(task_of(), "base0"), messages=())
    [step] = build_trajectory(build_event_log(run))["steps"]
    assert (step["step_id"], step["source"], step["message"]) == (1, "user", "Make a 2")


@given(runs())
def test_the_page_gets_every_event_with_no_text_too_long(run: RunState) -> None:
    run = replace(run, summary="x" * 20_000)
    shown = render_page_events(build_event_log(run))
    assert [each["type"] for each in shown] == [each["type"] for each in told_of(run)]
    assert "12000 characters left out" in shown[-1]["summary"]


_PARTS = ("http://", "https://", "url(", "@import", "src=")


def kept(tmp_path: Path, run: RunState) -> str:
    state = tmp_path / ".local" / "state" / "kakite"
    state.mkdir(parents=True)
    record = RunStore(state).create_run()
    record.folder.mkdir()
    record.save(run)
    return record.id


@pytest.mark.slow
def test_a_run_is_exported_as_lines_a_page_and_markdown_without_the_persons_keys(tmp_path: Path) -> None:
    run_id = kept(tmp_path, finished_run(say=f"I saw {SECRET}"))
    page, document = tmp_path / "run.html", tmp_path / "run.md"
    done = kakite(
        *("agent", "export", run_id, "--jsonl", "-", "--html", str(page), "--markdown", str(document)),
        home=tmp_path,
        env={"OPENAI_API_KEY": SECRET},
    )
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["type"] == "task"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert page.stat().st_mode & 0o777 == 0o600
    assert document.read_text(encoding="utf-8").startswith("# Make a 2\n")
    assert SECRET not in done.stdout + page.read_text(encoding="utf-8") + document.read_text(encoding="utf-8")


@pytest.mark.parametrize("given", [{"html": "-"}, {"markdown": "-"}])
def test_without_the_library_of_templates_an_export_says_what_brings_it(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError) as caught:
        export("run1", **given)
    assert caught.value.code == "missing_extra"
    assert "kakite[agent]" in caught.value.hint


@pytest.mark.slow
def test_an_export_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    run_id = kept(tmp_path, finished_run())
    for arguments in ((run_id,), (run_id, "--jsonl", "-", "--html", "-"), ("none", "--jsonl", "-")):
        done = kakite("agent", "export", *arguments, home=tmp_path)
        assert (done.code, done.stdout) == (2, "")
    missing = kakite("agent", "export", run_id, "--html", str(tmp_path / "no" / "x"), home=tmp_path)
    assert missing.code == 3
    assert "io_failed" in missing.stderr

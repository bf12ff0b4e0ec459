"""The assistant: what a model's stream leads to while people type, and how it is taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import pytest

from kakite.collab.assistant.assistant import Assistant, AssistantRequest, AssistantRun, RunError
from kakite.collab.assistant.runs import (
    AssistantEvent,
    AssistantRunFailed,
    AssistantRunFinished,
    AssistantRunStarted,
    EditFailed,
    EditFound,
    MessageDelta,
)
from kakite.collab.shared_text import SharedText, TrackedRange
from kakite.collab.suggestions.store import Suggestions
from kakite.edit import Change, ChangeSet
from kakite.errors import UsageError
from kakite.models.factory import open_model
from kakite.models.messages import Reply
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite_testing.fake_providers import serve_scenario
from tests.bounds import WITHIN
from tests.collab.models import Silent, Talking
from tests.collab.replicas import joined, meet, put

pytestmark = pytest.mark.anyio
Kind = TypeVar("Kind")

PAGE = "# 見出し 👍\nthe quick brown fox\n二行目の文です。\nlast\n"


def block(search: str, replace: str, page: str = "") -> str:
    return f"{page}<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


FOX, LINE = block("the quick brown fox", "the slow brown fox"), block("二行目の文です。", "三行目の文です。")


def page(text: str = PAGE, name: str = "notes.md") -> Suggestions:
    shared = SharedText()
    put(shared, 0, 0, text)
    return Suggestions(shared, page=name)


def request(**more: Any) -> AssistantRequest:
    return AssistantRequest(message="直して", page="notes.md", **more)


async def all_of(events: AsyncIterator[AssistantEvent]) -> list[AssistantEvent]:
    return [event async for event in events]


def of(events: Sequence[AssistantEvent], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_reply_becomes_messages_suggestions_and_failures_in_its_order() -> None:
    suggestions = page()
    model = Talking("I fix two li", "nes.\n", *FOX, block("nowhere to be found", "x"), LINE, "以上です。\n")
    events = await all_of(Assistant(model, by="ゆき").run(request(), {"notes.md": suggestions}))
    assert str(suggestions.text) == PAGE
    names = [event.name for event in events if not isinstance(event, MessageDelta)]
    assert names == ["run", "edit", "failure", "edit", "done"]
    assert "".join(event.text for event in of(events, MessageDelta)) == "I fix two lines.\n以上です。\n"
    assert [event.index for event in of(events, EditFound)] == [0, 2]
    (failure,) = of(events, EditFailed)
    assert (failure.index, failure.page, failure.code) == (1, "notes.md", "not_found")
    assert failure.hint
    first = of(events, EditFound)[0].to_json()
    assert first["page"] == "notes.md"
    assert first["suggestion"]["reason"] == "I fix two lines."
    assert first["suggestion"]["by"] == "ゆき"
    assert [one.id for one in suggestions.list_pending()] == [
        event.suggestion.id for event in of(events, EditFound)
    ]
    done = events[-1]
    assert isinstance(done, AssistantRunFinished)
    assert done.to_json()["status"] == "done"
    assert done.to_json()["counts"] == {"edits": 2, "failures": 1}
    assert done.to_json()["usage"]["input_tokens"] == 7
    json.dumps([event.to_json() for event in events])


async def test_an_edit_is_told_before_the_reply_is_over() -> None:
    suggestions = page()
    model = Talking(FOX, waits=True)
    run = Assistant(model).run(request(), {"notes.md": suggestions})
    async with asyncio.timeout(WITHIN):
        names = [(await anext(run)).name, (await anext(run)).name]
    assert names == ["run", "edit"]
    model.end()
    assert [event.name for event in await all_of(run)] == ["done"]


async def test_failures_tell_what_could_have_been_meant() -> None:
    suggestions = page()
    model = Talking(block("the quick brown fix jumps", "x"), block("no end", "x")[:-20])
    events = await all_of(Assistant(model).run(request(), {"notes.md": suggestions}))
    near, unread = of(events, EditFailed)
    assert near.candidates[0]["line"] == 2
    assert set(near.candidates[0]) == {"line", "lines", "score", "text"}
    assert unread.code == "marker_sequence"
    assert str(suggestions.text) == PAGE


async def test_the_model_is_told_the_page_the_selection_and_the_request() -> None:
    suggestions = page()
    model = Talking("ok")
    at = PAGE.index("二行目")
    await all_of(Assistant(model).run(request(selection=TrackedRange(at, at + 8)), {"notes.md": suggestions}))
    (told,) = model.told
    assert PAGE in told
    assert "line 3 of notes.md" in told
    assert told.endswith("直して")
    assert "SEARCH" in model.instructions
    assert "{" not in model.instructions
    assert "several pages" not in model.instructions


async def test_json_is_another_form_of_the_same() -> None:
    suggestions = page()
    said = {
        "contents": [
            {"message": "こんにちは"},
            {"search": "last\n", "replace": "end\n", "startLine": 4, "reason": "短く"},
        ]
    }
    model = Talking(*json.dumps(said))
    events = await all_of(Assistant(model).run(request(format="json"), {"notes.md": suggestions}))
    assert "".join(event.text for event in of(events, MessageDelta)) == "こんにちは"
    assert [event.suggestion.reason for event in of(events, EditFound)] == ["短く"]
    assert '"contents"' in model.instructions


async def test_several_pages_in_one_run() -> None:
    pages = {
        "notes.md": page(),
        "日報/b.md": page("other page\n", "日報/b.md"),
        "c.md": page("not asked\n", "c.md"),
    }
    reply = block("last", "end", "`notes.md`\n") + block("other page", "changed", "`日報/b.md`\n")
    reply += block("not asked", "x", "`c.md`\n")
    model = Talking(*reply)
    events = await all_of(Assistant(model).run(request(pages=("日報/b.md",)), pages))
    assert [event.page for event in of(events, EditFound)] == ["notes.md", "日報/b.md"]
    assert [event.code for event in of(events, EditFailed)] == ["no_such_page"]
    assert "not asked" not in model.told[0]
    assert "other page" in model.told[0]
    assert "name of the page" in model.instructions
    assert pages["日報/b.md"].list_pending()[0].page == "日報/b.md"


@pytest.mark.parametrize(
    ("prose", "page_", "code"),
    [
        ("I change b.md as you have asked me to\n", "b.md", None),
        ("I change notes.md and then b.md, both of them\n", "", "page_unclear"),
        ("I change the page that you are on, nothing else\n", "notes.md", None),
    ],
)
async def test_prose_may_say_which_page_an_edit_is_for(prose: str, page_: str, code: str | None) -> None:
    pages = {"notes.md": page(), "b.md": page(PAGE, "b.md")}
    events = await all_of(Assistant(Talking(prose + FOX)).run(request(pages=("b.md",)), pages))
    assert [event.page for event in of(events, EditFound)] == ([] if code else [page_])
    assert [event.code for event in of(events, EditFailed)] == ([code] if code else [])


async def test_a_flood_of_edits_is_refused_from_some_number_on() -> None:
    text = "".join(f"line {number} here\n" for number in range(510))
    reply = "".join(block(f"line {number} here", f"LINE {number}") for number in range(510))
    suggestions = page(text)
    events = await all_of(Assistant(Talking(reply)).run(request(), {"notes.md": suggestions}))
    assert len(of(events, EditFound)) == 500
    assert {event.code for event in of(events, EditFailed)} == {"too_many_edits"}


async def test_an_edit_for_another_file_is_not_made_on_the_only_page() -> None:
    suggestions = page()
    model = Talking(block("last", "end", "other.md\n"))
    events = await all_of(Assistant(model).run(request(), {"notes.md": suggestions}))
    assert [event.code for event in of(events, EditFailed)] == ["no_such_page"]
    assert suggestions.list_pending() == []


class TestAuto:
    async def test_edits_are_in_the_text_at_once_those_that_arrive_together_in_one_transaction(self) -> None:
        suggestions = page()
        updates: list[bytes] = []
        suggestions.text.doc.observe(lambda event: updates.append(event.update))
        model = Talking(FOX + LINE)
        events = await all_of(Assistant(model).run(request(mode="auto"), {"notes.md": suggestions}))
        assert str(suggestions.text) == PAGE.replace("quick", "slow").replace("二行", "三行")
        assert [event.suggestion.status for event in of(events, EditFound)] == ["accepted", "accepted"]
        assert len(updates) == 1

    async def test_a_run_is_taken_back_at_once_and_people_keep_what_they_typed(self) -> None:
        suggestions = page()
        theirs = joined(suggestions.text)
        model = Talking(FOX, waits=True)
        assistant = Assistant(model)
        run = assistant.run(request(mode="auto"), {"notes.md": suggestions})
        async with asyncio.timeout(WITHIN):
            began, _ = await anext(run), await anext(run)
        assert isinstance(began, AssistantRunStarted)
        meet(suggestions.text, theirs)
        at = str(theirs).index("low brown")
        put(theirs, at, at, "👍inside")
        put(theirs, 0, 0, "above\n")
        meet(suggestions.text, theirs)
        model.say(LINE)
        model.end()
        await all_of(run)
        updates: list[bytes] = []
        suggestions.text.doc.observe(lambda event: updates.append(event.update))
        assert assistant.revert(began.run).reverted
        meet(suggestions.text, theirs)
        assert len(updates) == 1
        assert str(theirs) == str(suggestions.text)
        assert str(theirs).replace("👍inside", "") == "above\n" + PAGE
        assert "👍inside" in str(theirs)
        with pytest.raises(RunError) as caught:
            assistant.revert(began.run)
        assert caught.value.code == "not_revertable"

    async def test_a_run_that_is_kept_stays(self) -> None:
        suggestions = page()
        assistant = Assistant(Talking(FOX))
        events = await all_of(assistant.run(request(mode="auto"), {"notes.md": suggestions}))
        run = of(events, AssistantRunStarted)[0].run
        assert assistant.keep(run).kept
        with pytest.raises(RunError):
            assistant.revert(run)
        assert "slow" in str(suggestions.text)

    async def test_peoples_own_undo_is_not_the_runs(self) -> None:
        suggestions = page()
        suggestions.text.apply(typed(suggestions, 0, "mine "), "person", undoable=True)
        assistant = Assistant(Talking(FOX))
        await all_of(assistant.run(request(mode="auto"), {"notes.md": suggestions}))
        suggestions.text.undo("person")
        assert str(suggestions.text) == PAGE.replace("quick", "slow")

    async def test_of_edits_for_the_same_words_the_first_is_made(self) -> None:
        suggestions = page()
        model = Talking(FOX + block("the quick brown fox", "the fast brown fox"))
        events = await all_of(Assistant(model).run(request(mode="auto"), {"notes.md": suggestions}))
        assert [event.code for event in of(events, EditFailed)] == ["changed"]
        assert "slow" in str(suggestions.text)
        assert suggestions.list_pending() == []
        done = events[-1]
        assert isinstance(done, AssistantRunFinished)
        assert (done.edits, done.failures) == (1, 1)


def typed(suggestions: Suggestions, at: int, what: str) -> ChangeSet:
    return ChangeSet.of(len(str(suggestions.text)), [Change(at, at, what)])


async def test_a_reviewed_run_is_taken_back_with_what_was_accepted_and_what_was_not() -> None:
    suggestions = page()
    assistant = Assistant(Talking(FOX + LINE))
    events = await all_of(assistant.run(request(), {"notes.md": suggestions}))
    suggestions.accept(of(events, EditFound)[0].suggestion.id)
    assistant.revert(of(events, AssistantRunStarted)[0].run)
    assert str(suggestions.text) == PAGE
    assert suggestions.list_pending() == []


class TestEnding:
    async def test_a_run_is_cancelled_and_its_model_too(self) -> None:
        suggestions = page()
        model = Talking("Hello you there, ", FOX, "<<<<<<< SEARCH\nhalf", waits=True)
        assistant = Assistant(model)
        seen: list[AssistantRun] = []
        assistant.changed = seen.append
        run = assistant.run(request(), {"notes.md": suggestions})
        began = await anext(run)
        assert isinstance(began, AssistantRunStarted)
        events: list[AssistantEvent] = []
        async with asyncio.timeout(WITHIN):
            async for event in run:
                events.append(event)
                if isinstance(event, EditFound | MessageDelta):
                    assistant.cancel(began.run)
        assert model.was_cancelled
        assert [event.status for event in of(events, AssistantRunFinished)] == ["cancelled"]
        assert of(events, EditFailed) == []
        assert assistant.runs[began.run].to_json()["status"] == "cancelled"
        assert len(seen) == 2
        assert assistant.cancel(began.run).status == "cancelled"

    async def test_a_run_whose_listener_goes_is_cancelled(self) -> None:
        model = Talking(FOX, waits=True)
        assistant = Assistant(model)
        run = assistant.run(request(), {"notes.md": page()})
        async with asyncio.timeout(WITHIN):
            await anext(run)
            await anext(run)
            await run.aclose()
        assert model.was_cancelled
        assert [one.status for one in assistant.runs.values()] == ["cancelled"]

    @pytest.mark.parametrize(("status", "code"), [(401, "model_auth"), (429, "model_rate_limit")])
    async def test_a_model_that_fails_is_an_event(self, status: int, code: str) -> None:
        turns = [{"error": {"status": status, "message": "no"}}]
        model = ScriptedModel(Scenario.parse(json.dumps({"title": "t", "turns": turns})))
        events = await all_of(Assistant(model).run(request(), {"notes.md": page()}))
        assert [event.name for event in events] == ["run", "error", "done"]
        assert [event.code for event in of(events, AssistantRunFailed)] == [code]
        assert [event.status for event in of(events, AssistantRunFinished)] == ["failed"]

    async def test_a_model_that_breaks_down_is_no_run_that_was_cancelled(self) -> None:
        class Breaking(Silent):
            async def reply(self, *_: object, **__: object) -> Reply:
                raise ZeroDivisionError

        assistant = Assistant(Breaking(""))
        with pytest.raises(ZeroDivisionError):
            await all_of(assistant.run(request(), {"notes.md": page()}))
        assert [run.status for run in assistant.runs.values()] == ["failed"]

    async def test_a_reply_that_is_cut_off_says_so_and_its_last_edit_fails(self) -> None:
        turns = [{"say": FOX + LINE, "truncate": True}]
        model = ScriptedModel(Scenario.parse(json.dumps({"title": "t", "turns": turns})))
        events = await all_of(Assistant(model).run(request(), {"notes.md": page()}))
        assert [event.status for event in of(events, AssistantRunFinished)] == ["cut"]
        assert len(of(events, EditFound)) + len(of(events, EditFailed)) >= 1

    async def test_without_a_model_or_a_page_nothing_begins(self) -> None:
        assistant = Assistant()
        cases = ((request(), None, "no_model"), (request(pages=("x",)), Talking(), "no_such_page"))
        for asked, model, code in cases:
            with pytest.raises(UsageError) as caught:
                await all_of(assistant.run(asked, {"notes.md": page()}, model))
            assert caught.value.code == code
        assert assistant.runs == {}
        with pytest.raises(RunError):
            assistant.cancel("none")

    async def test_a_model_that_does_not_stream_is_read_at_its_end(self) -> None:
        events = await all_of(Assistant(Silent(FOX)).run(request(), {"notes.md": page()}))
        assert len(of(events, EditFound)) == 1


@pytest.mark.parametrize("spec", ["openai:gpt-x", "anthropic:claude-sonnet-5-5"])
async def test_a_providers_real_stream_leads_to_the_same(spec: str) -> None:
    turns = [{"say": f"直します。\n{FOX}", "usage": {"input": 9, "output": 4}}]
    script = Scenario.parse(json.dumps({"title": "t", "turns": turns}))
    async with serve_scenario(script) as server:
        url = server.openai_url if spec.startswith("openai") else server.anthropic_url
        model = open_model(spec, base_url=url, environ={"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"})
        suggestions = page()
        events = await all_of(Assistant(model).run(request(), {"notes.md": suggestions}))
    assert len(of(events, EditFound)) == 1
    done = events[-1]
    assert isinstance(done, AssistantRunFinished)
    assert done.usage.input_tokens == 9


def test_a_request_is_read_from_json_in_the_browsers_units() -> None:
    suggestions = page()
    data = {
        "message": "m",
        "selection": {"start": 8, "end": 6},
        "mode": "auto",
        "pages": ["b", "notes.md", "b"],
    }
    asked = AssistantRequest.from_json("notes.md", data, {"notes.md": suggestions})
    assert asked == AssistantRequest(
        message="m", page="notes.md", selection=TrackedRange(6, 7), mode="auto", pages=("b",)
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"message": " "},
        {"message": "m", "mode": "x"},
        {"message": "m", "format": "udiff"},
        {"message": "m", "pages": "b"},
        {"message": "m", "pages": [1]},
        {"message": "m", "selection": {"start": "1"}},
        {"message": "m", "selection": 3},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        AssistantRequest.from_json("notes.md", data, {"notes.md": page()})
    assert caught.value.code == "bad_request"


def test_runs_are_stored_and_one_that_went_on_is_over() -> None:
    run = AssistantRun(id="1", by="A", page="p", mode="auto", status="running", edits=2, failures=1)
    again = AssistantRun.from_json(json.loads(json.dumps(run.to_json())))
    assert again == AssistantRun(
        id="1", by="A", page="p", mode="auto", status="cancelled", edits=2, failures=1
    )
    assistant = Assistant(runs=[again])
    with pytest.raises(RunError) as caught:
        assistant.revert("1")
    assert caught.value.code == "not_revertable"

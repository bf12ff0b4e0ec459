"""A scenario file is checked strictly, and what it expects is enforced."""

from __future__ import annotations

import threading

import pytest
from tests.bounds import WITHIN

from kakite.models.messages import InvalidToolCall, Reply, ToolMessage, UserMessage
from kakite.models.scripted_model import Scenario, ScenarioError, ScenarioRun, ScriptedRequest
from kakite.tools.toolset import Tool, ToolCall

FIRST = """
title: clock
turns:
  - expect:
      system_contains: [editor]
      last_contains: [fix the clock]
      tools_include: [text_editor]
    say: I look first.
    calls:
      - {tool: text_editor, arguments: {command: view, path: clock.py}}
  - expect:
      tool_result: {tool: text_editor, contains: [tick], lacks: [tock], is_error: false}
    say: Done.
"""


def told(*news: UserMessage | ToolMessage, system: str = "You are an editor") -> ScriptedRequest:
    return ScriptedRequest(system=system, news=news, tools=("text_editor",))


def start() -> ScenarioRun:
    return ScenarioRun(Scenario.parse(FIRST))


def result(text: str, *, tool: str = "text_editor", is_error: bool = False) -> ToolMessage:
    return ToolMessage(call_id="1", tool=tool, text=text, is_error=is_error)


def refused(playback: ScenarioRun, what: ScriptedRequest) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        playback.next(what)
    assert playback.violations[-1] == caught.value.message
    return caught.value


def test_a_turn_is_a_reply() -> None:
    cue = start().next(told(UserMessage(text="please fix the clock")))
    assert cue.reply("m") == Reply(
        text="I look first.",
        calls=(
            ToolCall(id="call_1_1", name="text_editor", arguments={"command": "view", "path": "clock.py"}),
        ),
        finish="tool_calls",
        usage=cue.reply("m").usage,
        model="m",
    )


def test_only_what_came_since_the_last_reply_is_news() -> None:
    news = ScriptedRequest.of(
        "s",
        [UserMessage(text="old"), Reply(text="r"), result("new"), UserMessage(text="newer")],
        [Tool(name="t", description="", parameters={})],
    )
    assert news == ScriptedRequest(system="s", news=(result("new"), UserMessage(text="newer")), tools=("t",))


@pytest.mark.parametrize(
    ("what", "names"),
    [
        (told(UserMessage(text="fix the clock"), system="You are a cook"), "`editor`"),
        (told(UserMessage(text="fix the door")), "`fix the clock`"),
        (
            ScriptedRequest(system="editor", news=(UserMessage(text="fix the clock"),), tools=("shell",)),
            "`text_editor`",
        ),
    ],
)
def test_an_unmet_expectation_names_itself_and_what_was_there(what: ScriptedRequest, names: str) -> None:
    error = refused(start(), what)
    assert error.code == "script_unmet"
    assert "turn 1" in error.message
    assert names in error.message


@pytest.mark.parametrize(
    "news",
    [
        (),
        (result("tick"), result("tick")),
        (result("nothing"),),
        (result("tick tock"),),
        (result("tick", is_error=True),),
        (result("tick", tool="shell"),),
    ],
)
def test_a_result_that_is_not_as_expected_is_refused(news: tuple[ToolMessage, ...]) -> None:
    playback = start()
    playback.next(told(UserMessage(text="fix the clock")))
    assert refused(playback, told(*news)).code == "script_unmet"
    playback.next(told(result("tick")))  # the turn was not used up
    assert playback.turns_left == 0


def test_a_script_that_is_over_says_so() -> None:
    playback = ScenarioRun(Scenario.parse("{title: t, turns: [{say: x}]}"))
    playback.next(told())
    assert refused(playback, told()).code == "script_over"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[", "s.yaml"),
        ("title: t", "turns"),
        ("{title: t, turns: []}", "turns"),
        ("{title: t, turns: [{say: x}, {sai: y}]}", "turn 2 → sai"),
        ("{title: t, turns: [{say: 1}]}", "turn 1 → say"),
        ("{title: t, turns: [{}]}", "turn 1"),
        ("{title: t, turns: [{say: x, error: {status: 500}}]}", "turn 1"),
        ("{title: t, turns: [{error: {status: 200}}]}", "turn 1 → error → status"),
        ("{title: t, turns: [{calls: [{tool: a, arguments: {}, raw_arguments: x}]}]}", "turn 1 → calls → 0"),
        ("{title: t, turns: [{calls: [{tool: a, arguments: {on: 2024-01-01}}]}]}", "s.yaml"),
        ("{title: t, turns: [{say: x, say: y}]}", "twice"),
        ('{"title": "t", "turns": [{"say": "x", "say": "y"}]}', "twice"),
        ("{title: t, turns: [{say: .nan}]}", "s.yaml"),
    ],
)
def test_a_wrong_script_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, source="s.yaml")
    assert caught.value.code == "script_invalid"
    assert caught.value.exit_code == 2
    assert "s.yaml" in caught.value.message
    assert place in caught.value.message


def test_a_truncated_turn_cuts_what_stands_last() -> None:
    script = Scenario.parse("""
title: t
turns:
  - {say: abcd, truncate: true}
  - {say: whole, truncate: true, calls: [{tool: a, arguments: {x: 1}}, {tool: b, arguments: {y: 2}}]}
""")
    playback = ScenarioRun(script)
    text, calls = playback.next(told()).reply("m"), playback.next(told()).reply("m")
    assert (text.text, text.finish) == ("ab", "length")
    assert (calls.text, calls.finish) == ("whole", "length")
    assert calls.calls == (
        ToolCall(id="call_2_1", name="a", arguments={"x": 1}),
        InvalidToolCall(id="call_2_2", name="b", raw='{"y"'),
    )


def test_many_threads_get_every_turn_once() -> None:
    turns = ", ".join(f"{{say: t{number}}}" for number in range(200))
    playback = ScenarioRun(Scenario.parse(f"{{title: t, turns: [{turns}]}}"))
    heard: list[str] = []

    def ask() -> None:
        heard.extend(playback.next(told()).turn.say for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WITHIN)
    assert sorted(heard) == sorted(f"t{number}" for number in range(200))

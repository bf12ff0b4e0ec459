"""Models without tool calls call tools all the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, UserMessage
from kakite.models.model import ModelError, OnText
from kakite.models.text_tool_calls import (
    TextToolCallModel,
    ToolCallMode,
    describe_tools,
    extract_calls,
    render_call,
    to_text_messages,
)
from kakite.tools.toolset import Tool, ToolCall

pytestmark = pytest.mark.anyio

TOOL = Tool(name="run_command", description="Runs it.", parameters={"type": "object"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
CALLS = st.builds(
    ToolCall, id=st.just(""), name=NAMES, arguments=st.dictionaries(st.text(), JSON, max_size=4)
)
PROSE = st.text(st.characters(exclude_characters="`<", exclude_categories=["Cs"]))


class Answers:
    """A model that gives these answers, or fails with them, and remembers what it was asked."""

    name = "openai:small"

    def __init__(self, *answers: Reply | ModelError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, Sequence[Message], Sequence[Tool]]] = []

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        assert on_text is on_thought is None
        self.asked.append((instructions, messages, tools))
        answer = self._answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer


def fence(**said: object) -> str:
    return f"I look.\n\n```json\n{json.dumps(said)}\n```\n"


CALL = fence(tool="run_command", arguments={"command": "ls"})
ASKED = (UserMessage(text="do it"),)


async def ask(model: Answers, messages: Sequence[Message] = ASKED, how: ToolCallMode = "auto") -> Reply:
    return await TextToolCallModel(model, how).reply("Be careful.", messages, [TOOL])


@given(st.lists(CALLS, min_size=1, max_size=4), PROSE)
def test_calls_written_into_any_prose_are_read_as_they_were_meant(calls: list[ToolCall], prose: str) -> None:
    text = "\n".join((prose, *map(render_call, calls), prose))
    found = extract_calls(Reply(text=text))
    assert [replace(call, id="") for call in found.calls] == calls
    assert (found.finish, found.text) == ("tool_calls", text)
    assert len({call.id for call in found.calls}) == len(calls)


@given(st.text())
def test_a_text_without_a_block_holds_no_call(text: str) -> None:
    reply = Reply(text=text.replace("```", "").replace("<tool_call>", ""))
    assert extract_calls(reply) == reply


@given(st.lists(st.tuples(st.lists(CALLS, max_size=3), st.text(max_size=20)), max_size=4))
def test_what_the_model_reads_has_no_call_and_all_results_in_order(
    turns: list[tuple[list[ToolCall], str]],
) -> None:
    conversation: list[Message] = [*ASKED]
    for number, (calls, text) in enumerate(turns):
        named = tuple(replace(call, id=f"{number}-{place}") for place, call in enumerate(calls))
        conversation.append(Reply(text=text, calls=named))
        conversation += [ToolMessage(call_id=each.id, tool=each.name, text=f"<{each.id}>") for each in named]
    told = to_text_messages(conversation)
    assert not any(isinstance(each, ToolMessage) or (isinstance(each, Reply) and each.calls) for each in told)
    said = "\0".join(each.text for each in told if isinstance(each, (UserMessage, Reply)))
    places = [said.index(f"<{each.call_id}>") for each in conversation if isinstance(each, ToolMessage)]
    assert places == sorted(places)


def test_the_same_tools_are_described_the_same() -> None:
    assert describe_tools([TOOL]) == describe_tools([replace(TOOL)])
    assert "`run_command`" in describe_tools([TOOL])


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        '```\n{"name": "run_command", "parameters": {"command": "ls"}}\n```',
        '<tool_call>\n{"name": "run_command", "arguments": {"command": "ls"}}\n</tool_call>',
        '<tool_call>\n```json\n{"name": "run_command", "arguments": {"command": "ls"}}\n```\n</tool_call>',
        CALL.rstrip().removesuffix("```"),
        CALL.replace("\n", "\r\n"),
        CALL.replace("}\n```", "}```"),
        CALL.replace("```json\n", "```json ").replace("\n```", " ```"),
        CALL.replace("```json", "  ```JSON").replace("\n```\n", "\n  ```\n"),
        CALL.replace("```", "````"),
        '```json\n[{"tool": "run_command", "arguments": {"command": "ls"}}]\n```',
        '```json\n{"tool": "run_command", "arguments": "{\\"command\\": \\"ls\\"}"}\n```',
        f"```python\nprint(1)\n```\nSo I look:\n{CALL}",
        f"Let me use ```ls``` for it.\n{CALL}",
        '{"tool": "run_command", "arguments": {"command": "ls"}}\n',
        '<tool_call>{"name": "run_command", "arguments": {"command": "ls"}}',
    ],
)
async def test_what_small_models_write_is_understood(text: str) -> None:
    reply = await ask(Answers(Reply(text=text)))
    (call,) = reply.calls
    assert (call.name, getattr(call, "arguments", None)) == ("run_command", {"command": "ls"})


async def test_several_calls_of_one_block_are_all_read() -> None:
    each = [json.dumps({"tool": "run_command", "arguments": {"command": name}}) for name in ("a", "b")]
    for between in ("\n", ", ", "\n\n"):
        reply = await ask(Answers(Reply(text=f"```json\n{between.join(each)}\n```")))
        assert [getattr(call, "arguments", None) for call in reply.calls] == [
            {"command": "a"},
            {"command": "b"},
        ]


async def test_a_call_that_another_block_quotes_is_none() -> None:
    text = f"````markdown\nCall it so:\n{CALL}\n````\n"
    assert (await ask(Answers(Reply(text=text)))).calls == ()


async def test_what_a_file_holds_is_no_end_of_a_call() -> None:
    said = {"path": "a.md", "file_text": "```json\n{}\n```\n<tool_call></tool_call>\u2028```"}
    tagged = json.dumps({"name": "run_command", "arguments": {**said, "file_text": "```"}})
    for text in (fence(tool="run_command", arguments=said), f"<tool_call>{tagged}</tool_call>"):
        (call,) = (await ask(Answers(Reply(text=text)))).calls
        assert getattr(call, "arguments", {})["path"] == "a.md"


@pytest.mark.parametrize("value", ["[" * 100_000, "[" * 500 + "]" * 500, "1" + "0" * 5000, "NaN", '"x'])
async def test_arguments_that_cannot_be_kept_are_a_broken_call(value: str) -> None:
    text = f'```json\n{{"tool": "run_command", "arguments": {{"command": {value}}}}}\n```'
    (call,) = (await ask(Answers(Reply(text=text)))).calls
    assert isinstance(call, InvalidToolCall)


@pytest.mark.parametrize(
    "piece",
    [
        "```json\n",
        "<tool_call>",
        "`",
        "```\n",
        '"tool":"a" ',
        "``` ",
        "{",
        " \n",
        "```json\n[",
        '```json\n{"tool":"x","arguments":{}}\n',
    ],
)
async def test_a_model_that_repeats_itself_is_read_in_good_time(piece: str) -> None:
    with little_work():
        await ask(Answers(Reply(text=f"```json\n{piece * (200_000 // len(piece))}")))
        await ask(Answers(Reply(text=piece * (200_000 // len(piece)))))


async def test_half_a_character_in_a_call_is_told_as_such() -> None:
    reply = await ask(Answers(Reply(text=fence(tool="run_command", arguments={"command": "\ud83d"}))))
    assert [getattr(call, "arguments", None) for call in reply.calls] == [{"command": "\ufffd"}]


async def test_json_that_is_broken_is_a_broken_call() -> None:
    reply = await ask(
        Answers(Reply(text='```json\n{"tool": "run_command", "arguments": {"command": "a\nb"}}\n```'))
    )
    (call,) = reply.calls
    assert isinstance(call, InvalidToolCall)
    assert call.name == "run_command"


@pytest.mark.parametrize(
    "text", ['```json\n{"goal": "g", "steps": []}\n```', fence(tool="other", arguments={})]
)
async def test_a_block_that_is_no_call_of_a_tool_stays_text(text: str) -> None:
    assert (await ask(Answers(Reply(text=text)))).calls == ()


async def test_once_a_model_has_called_by_text_it_is_told_how_and_its_tools_go_by_text() -> None:
    first = await ask(Answers(Reply(text=CALL)))
    model = Answers(Reply(text="done"))
    heard = ToolMessage(call_id=first.calls[0].id, tool="run_command", text="a b", is_error=True)
    await ask(model, (*ASKED, first, heard))
    ((instructions, messages, tools),) = model.asked
    assert not tools
    assert instructions.startswith("Be careful.\n\n# How to call a tool")
    assert messages == (
        *ASKED,
        Reply(text=CALL),
        UserMessage(text="[result of `run_command`, failed]\na b"),
    )


async def test_a_server_that_knows_no_tools_is_asked_without() -> None:
    refusal = ModelError("registry/tiny does not support tools", code="model_rejected")
    model = Answers(refusal, Reply(text=CALL), Reply(text="done"))
    fenced = TextToolCallModel(model)
    assert len((await fenced.reply("", ASKED, [TOOL])).calls) == 1
    await fenced.reply("", ASKED, [TOOL])
    assert [bool(tools) for _, _, tools in model.asked] == [True, False, False]


async def test_any_other_refusal_is_one() -> None:
    with pytest.raises(ModelError, match="no credit"):
        await ask(Answers(ModelError("no credit", code="model_quota")))
    with pytest.raises(ModelError, match="too long"):
        await ask(Answers(ModelError("too long", code="model_rejected")))


async def test_a_model_that_calls_by_itself_may_quote_a_call() -> None:
    own = Reply(calls=(ToolCall(id="c1", name="run_command", arguments={}),))
    heard = ToolMessage(call_id="c1", tool="run_command", text="")
    assert (await ask(Answers(own))).calls == own.calls
    assert (await ask(Answers(Reply(text=CALL)), (*ASKED, own, heard))).calls == ()
    assert (await ask(Answers(Reply(text=CALL)), how="native")).calls == ()


async def test_a_conversation_with_calls_of_its_own_goes_on_by_text_with_another_model() -> None:
    own = Reply(text="I look", calls=(ToolCall(id="c1", name="run_command", arguments={"a": 1}),), raw="[]")
    model = Answers(Reply(text="done"))
    await ask(model, (*ASKED, own, ToolMessage(call_id="c1", tool="run_command", text="ok")), how="fenced")
    ((_, messages, _),) = model.asked
    assert messages[1] == Reply(
        text='I look\n\n```json\n{"tool": "run_command", "arguments": {"a": 1}}\n```', finish="stop"
    )

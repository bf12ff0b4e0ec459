"""Runs for tests: made by the flow itself, from any texts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from kakite.agent.run import compaction, state_machine
from kakite.agent.run.state import ProjectInstruction, RunState, RunStep, Task
from kakite.models.messages import InvalidToolCall, Reply, Usage
from kakite.tools.toolset import ToolCall, ToolResult

PLAN = '{"goal": "a is 2", "steps": ["look", "edit"], "title": "Make a 2", "check": "true"}'
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
CHECKED = RunStep(kind="check", text="true", seconds=1.0)
USED = Usage(requests=1, input_tokens=100, output_tokens=10, cost_usd=0.001)

texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["<script>alert(1)</script>", "a\u202eb\u0007c", '"><img src=x>', "&lt;", "\ud800", "日本語"]
    ),
)


def task_of(text: str = "Make a 2", run_id: str = "run1") -> Task:
    return Task(
        id=run_id,
        text=text,
        repository="/r",
        branch="topic",
        model="scripted:t",
        sandbox="local",
        approve="all",
        max_turns=20,
    )


def call_of(number: int, **arguments: object) -> ToolCall:
    return ToolCall(id=f"c{number}", name="text_editor", arguments=arguments)


def finished_run(
    say: str = "Done.",
    result: str = "edited",
    *,
    text: str = "Make a 2",
    run_id: str = "run1",
    check: RunStep = CHECKED,
) -> RunState:
    """Return a run to its end: a plan, one edit, one failed call, a check, a commit, a push."""
    run = state_machine.on_reply(
        state_machine.create_run_state(task_of(text, run_id), "base0"),
        Reply(text=PLAN, usage=USED, model="t"),
    )
    calls = (
        call_of(1, command="str_replace", path="a.py"),
        InvalidToolCall(id="c2", name="text_editor", raw="{"),
    )
    run = state_machine.on_reply(run, Reply(text=say, calls=calls, finish="tool_calls", usage=USED))
    run = state_machine.on_tool_finished(run, ToolResult(text=result, details={"diff": DIFF}), 0.5)
    run = state_machine.on_reply(run, Reply(text=say, usage=USED))
    run = state_machine.on_inspection(run, diff=DIFF, findings=(), checked=check)
    return state_machine.on_push(state_machine.on_commit(run, "c0ffee" * 7))


@st.composite
def runs(draw: st.DrawFn) -> RunState:
    """Any run that is still acting, or has just planned."""
    run = state_machine.create_run_state(task_of(draw(texts)), "base0")
    run = state_machine.on_reply(run, Reply(text=draw(texts) or "plan", usage=USED))
    rules = tuple(ProjectInstruction(path=path, text="rule") for path in draw(st.lists(texts, max_size=2)))
    run = replace(run, rules=rules)
    for number in range(draw(st.integers(0, 4))):
        calls = [
            call_of(each, text=draw(texts))
            for each in range(number * 3, number * 3 + draw(st.integers(0, 3)))
        ]
        if draw(st.booleans()):
            run = compaction.add_compaction_step(run, 900, 400)
        run = state_machine.on_reply(
            run, Reply(text=draw(texts), calls=(*calls,), usage=USED, finish="tool_calls")
        )
        while run.pending and draw(st.integers(0, 9)):
            failed = draw(st.booleans())
            run = state_machine.on_tool_finished(
                run, ToolResult(text=draw(texts), is_error=failed, code="x" * failed), 0.1
            )
    return run

"""The tools of a session that work in this process: what needs the person, or their own folders."""

from __future__ import annotations

import asyncio

from kakite.agent.run.checklist import STATUSES, UPDATE_PLAN, parse_checklist
from kakite.agent.session.context import Skill, read_skill
from kakite.tools.arguments import ToolError, suggest_name
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import JsonObject, Tool, ToolResult

MAX_STEPS = 50

READ_SKILL = Tool(
    name="read_skill",
    title="Read a skill",
    description="Read a skill, or another file of its folder.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The skill's name"},
            "file": {"type": "string", "description": "A file in its folder; default: SKILL.md"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)


def build_session_tools(skills: tuple[Skill, ...]) -> tuple[FunctionTool, ...]:
    """Return the tools that a session's settings and files decide on; ``open_session`` adds its own."""
    return (_create_read_skill_tool(skills),) if skills else ()


def _create_read_skill_tool(skills: tuple[Skill, ...]) -> FunctionTool:
    by_name = {skill.name: skill for skill in skills}

    async def perform(arguments: JsonObject) -> ToolResult:
        name = arguments["name"]
        if name not in by_name:
            raise ToolError(f"there is no skill `{name[:100]}`", hint=suggest_name(name, by_name))
        file = arguments.get("file") or "SKILL.md"
        return ToolResult(text=await asyncio.to_thread(read_skill, by_name[name], file))

    return FunctionTool(READ_SKILL, perform)


def create_update_plan_tool() -> FunctionTool:
    """Return the tool that keeps the session's checklist. The conversation itself holds it."""

    async def perform(arguments: JsonObject) -> ToolResult:
        steps = parse_checklist(arguments)
        done = sum(step.status == "completed" for step in steps)
        return ToolResult(text=f"The person sees the plan: {done} of {len(steps)} steps are completed.")

    step = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 500},
            "status": {"type": "string", "enum": list(STATUSES)},
        },
        "required": ["text", "status"],
        "additionalProperties": False,
    }
    tool = Tool(
        name=UPDATE_PLAN,
        title="Update the plan",
        description=(
            "Show the person a checklist of your work. Use it for work of three steps or more, and again "
            "whenever a step begins or is completed; each call has all steps. It is no answer."
        ),
        parameters={
            "type": "object",
            "properties": {"steps": {"type": "array", "maxItems": MAX_STEPS, "items": step}},
            "required": ["steps"],
            "additionalProperties": False,
        },
        effect="read",
        idempotent=True,
    )
    return FunctionTool(tool, perform)

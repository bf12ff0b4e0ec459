"""Describes the debate server's tools to a model, with the instructions for clients. Pure."""

from __future__ import annotations

from kakite.debate.mcp.results import list_decision_types
from kakite.debate.prompt import load_prompt
from kakite.tools.toolset import JsonObject, Tool

MAX_WAIT = 45
"""Seconds: clients cut calls at a minute."""
DEFAULT_WAIT = 30
_MAX_PROMPT = 200_000


def build_judge_guide(topic: str = "") -> str:
    """Return how the editor's model is to judge, and about what, if that is known."""
    return load_prompt("judge") + (f"\n\nThe person's question:\n\n{topic.strip()}" if topic.strip() else "")


_FILES: JsonObject = {
    "repo": {
        "type": "string",
        "description": "The folder whose files every participant can read, and nothing else. Without it, and "
        "without `diff` and `files`, they read nothing.",
    },
    "diff": {
        "type": "string",
        "minLength": 1,
        "description": "A commit or branch: every participant is shown what has changed since.",
    },
    "review": {
        "type": "string",
        "minLength": 1,
        "description": "A branch: the participants review what it changes, report findings, and judge each. "
        "`diff` is then its base, if that is not the main branch.",
    },
    "files": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "maxItems": 50,
        "description": "Globs of the files that are meant, e.g. src/**; without them, all.",
    },
}


def build_tools(sides: tuple[str, ...], cap: int, *, has_roots: bool = False) -> tuple[Tool, ...]:
    """Return the tools for debates between these participants, of so many rounds at most.

    With ``has_roots`` debates can be about the files of a folder.
    """
    return (
        _build_start_tool(sides, cap, has_roots=has_roots),
        _build_tool(
            "step",
            "Go on as the person decides",
            "Go on after a complete turn, as the person has decided; the participants answer anew. Like "
            "start_debate, answers at once.",
            {"decision": _build_decision_schema(sides)},
            "decision",
        ),
        _build_tool(
            "wait",
            "Wait for the turn",
            "Wait until the turn is complete, for some seconds, and return where the debate stands. Goes on "
            "with a debate that was interrupted.",
            {
                "seconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_WAIT,
                    "default": DEFAULT_WAIT,
                    "description": f"At most {MAX_WAIT}.",
                }
            },
        ),
        _build_tool(
            "status", "Where the debate stands", "Return where the debate stands, and all sessions.", {}
        ),
        _build_tool("stop", "End the debate", "End the debate for good.", {}),
    )


def build_tools_by_name(sides: tuple[str, ...], cap: int, *, has_roots: bool) -> dict[str, Tool]:
    """Return the same by their names."""
    return {tool.name: tool for tool in build_tools(sides, cap, has_roots=has_roots)}


def _build_start_tool(sides: tuple[str, ...], cap: int, *, has_roots: bool) -> Tool:
    return _build_tool(
        "start_debate",
        "Start a debate",
        f"Let {' and '.join(sides)} answer a question independently, then criticise each other's answers "
        "and answer anew. Answers at once; while `status` is `running`, call `wait`. When it is done, "
        "`turn` has each side's answer.",
        {
            "initial_prompt": {
                "type": "string",
                "minLength": 1,
                "maxLength": _MAX_PROMPT,
                "description": "The person's question, complete and without your own view: "
                "the participants see nothing else.",
            },
            "verdict": {
                "type": "string",
                "maxLength": 4000,
                "description": "Your own answer in two sentences, before you see theirs. "
                "Kept for the transcript, shown to no participant.",
            },
            "mode": {
                "enum": ["debate", "ensemble", "quick"],
                "description": "`ensemble`: independent answers only, no critique; quicker. "
                "`quick`: the same, one page each.",
            },
            "rounds": {"type": "integer", "minimum": 1, "maximum": cap},
            "reset": {"type": "boolean", "description": "Stop the debate of this session first."},
            **(_FILES if has_roots else {}),
        },
        "initial_prompt",
    )


def _build_decision_schema(sides: tuple[str, ...]) -> JsonObject:
    kind = {
        "enum": list(list_decision_types(sides)),
        "description": "adopt_NAME: go on from that side's answer. custom_instruction: do what the person "
        "says. compromise, synthesize: one answer of all. evidence: judge again by new facts. continue: "
        "another round, which also asks those again that failed. patch: the best of all as edits to files.",
    }
    text = {
        "type": "string",
        "maxLength": _MAX_PROMPT,
        "description": "The person's words; needed with custom_instruction and evidence.",
    }
    return {
        "type": "object",
        "properties": {"type": kind, "custom_text": text},
        "required": ["type"],
        "additionalProperties": False,
    }


def _build_tool(name: str, title: str, description: str, properties: JsonObject, *required: str) -> Tool:
    session = {
        "type": "string",
        "maxLength": 80,
        "description": "Name of the debate, for several at once. Leave it out for one.",
    }
    return Tool(
        name=name,
        title=title,
        description=description,
        parameters={
            "type": "object",
            "properties": {**properties, "session": session},
            "required": list(required),
            "additionalProperties": False,
        },
        # Nothing of the person's is changed, and some clients call nothing else without asking.
        effect="read",
        idempotent=name in {"wait", "status"},
        open_world=True,
    )

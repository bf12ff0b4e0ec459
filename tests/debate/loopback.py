"""A model on the loopback for real CLIs: it argues as a participant, and judges as an editor's model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.clients.model import Json, Model, message

FENCE = "```"


@dataclass
class Debater(Model):
    """Answers questions; where it is offered the tools of debates, it makes the calls that it was told to."""

    server: str = "debate"
    tool: str = ""
    arguments: Json = field(default_factory=dict[str, Any])
    calls: Sequence[tuple[str, Json]] = ()
    answers: list[Json] = field(default_factory=list[Json])
    """What the calls gave, read."""
    prompts: list[str] = field(default_factory=list[str])
    """What participants were asked."""

    def messages(self, request: Json) -> Iterator[Json]:
        """Answer as Anthropic does."""
        blocks: list[Any] = [block for message in request["messages"] for block in message["content"]]
        results = [block for block in blocks if "tool_use_id" in block]  # of a text as well: it says no such
        call = self._call(request, [_text(block["content"]) for block in results])
        if call:
            name = f"mcp__{self.server}__{call[0]}"
            block: Json = {"type": "tool_use", "id": f"call_{len(results)}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": self._said(request, json.dumps(request["messages"]))}
        yield from message(block, delta, "tool_use" if call else "end_turn")

    def responses(self, request: Json) -> Iterator[Json]:
        """Answer as OpenAI's responses API does."""
        results = [each for each in request["input"] if each.get("type") == "function_call_output"]
        call = self._call(request, [_text(each["output"]) for each in results])
        item: Json
        if call:
            item = {
                "type": "function_call",
                "id": f"fc_{len(results)}",
                "call_id": f"call_{len(results)}",
                "name": call[0],
                "namespace": f"mcp__{self.server}",
                "arguments": json.dumps(call[1]),
            }
        else:
            said = self._said(request, json.dumps(request["input"]))
            content = [{"type": "output_text", "text": said}]
            item = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage, "output": [item]}}

    def _call(self, request: Json, results: list[str]) -> tuple[str, Json] | None:
        if not self.calls or "start_debate" not in json.dumps(request.get("tools", [])):
            return None
        self.answers = [_read(text) for text in results]
        if self.answers and self.answers[-1].get("status") == "running":
            return "wait", {"seconds": 20}
        done = sum(each.get("status") != "running" for each in self.answers)
        return self.calls[done] if done < len(self.calls) else None

    def _said(self, request: Json, prompt: str) -> str:
        if self.calls and "start_debate" in json.dumps(request.get("tools", [])):
            return "I have judged."
        self.prompts.append(prompt)
        block: Json = {"claim": "It depends.", "confidence": 70, "key_points": ["on rents"]}
        if letters := re.search(r"each of the letters ((?:[A-H], )*[A-H])", prompt):
            verdict = {"verdict": "reject", "issues": ["It names no price."], "strongest": "It is short."}
            block |= {"verdicts": dict.fromkeys(letters[1].split(", "), verdict), "position": "new"}
        return f"It depends on rents.\n\n{FENCE}json\n{json.dumps(block)}\n{FENCE}\n"


def _text(content: object) -> str:
    """Return the text of a result in any of the forms in which clients pass it on."""
    if isinstance(content, str):
        return content
    return "".join(str(each.get("text", "")) for each in content)  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues, reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue]


def _read(text: str) -> Json:
    """Return the object of a reply; clients put words of their own around it."""
    start = text.find('{"status"')
    if start < 0:
        return {"status": "unread", "text": text}
    return json.JSONDecoder().raw_decode(text[start:])[0]

"""Asks an editor's person: about calls, by requests for permission, and the model's own questions."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

from acp import RequestError, schema

from kakite.agent.acp.edited_files import EditedFiles
from kakite.agent.acp.editor_buffers import FileClient
from kakite.agent.acp.questions import (
    build_question_call,
    build_question_form,
    build_question_options,
    parse_form_answer,
    parse_option_answer,
)
from kakite.agent.acp.updates import get_tool_kind, list_locations
from kakite.agent.run.state_machine import describe_question
from kakite.agent.session.person_questions import PersonQuestion
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.host.policy.approver import DEFAULT_DENIAL_REASON
from kakite.host.policy.rules import describe_scope
from kakite.terminal_text import escape_one_line

log = logging.getLogger(__name__)


class AcpClient(FileClient, Protocol):
    """What we ask of the editor."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Show an update."""
        ...

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        """Ask the person about a call."""
        ...

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        """Ask the person to fill in a form. Only where the editor has forms."""
        ...


class AskingSession(Protocol):
    """What is known of the session that asks."""

    client: AcpClient
    files: EditedFiles
    session_id: str
    has_forms: bool
    """Whether the editor can show a form."""
    last_call: str
    """The id of the call that was shown last."""

    async def flush(self) -> None:
        """Wait until all updates are sent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionApprover:
    """Asks the editor's person. A PersonApprover."""

    opened: AskingSession
    rejected: set[object] = field(default_factory=set[object])
    """What the person said no to for the rest of the session."""

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask for permission, and wait for the answer."""
        opened, call = self.opened, question.call
        what, scope = _get_rejection_scope(question)
        if what in self.rejected:
            return ApprovalResponse(allowed=False, reason=f"{DEFAULT_DENIAL_REASON} to {scope}")
        await opened.flush()  # the call is shown before the question about it
        shown = schema.ToolCallUpdate(
            tool_call_id=call.id,
            title=describe_question(call, question.diff),
            kind=get_tool_kind(call.name, call.arguments),
            status="pending",
            content=opened.files.show_preview(question.diff) or None,
            locations=list_locations(opened.files, call.arguments) or None,
            raw_input=call.arguments,
        )
        try:
            answer = await opened.client.request_permission(
                opened.session_id, shown, build_permission_options(question)
            )
        except RequestError as error:
            reason = f"the editor could not ask: {error}"
            return ApprovalResponse(allowed=False, reason=reason, nobody=True)
        match answer.outcome:
            case schema.AllowedOutcome(option_id="once"):
                return ApprovalResponse(allowed=True)
            case schema.AllowedOutcome(option_id="tool"):
                return ApprovalResponse(allowed=True, remember="tool")
            case schema.AllowedOutcome(option_id="always") if question.saves:
                return ApprovalResponse(allowed=True, remember="always")
            case schema.AllowedOutcome(option_id="never"):
                self.rejected.add(what)
            case _:
                pass
        return ApprovalResponse(allowed=False, reason=DEFAULT_DENIAL_REASON)

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Ask the model's own question: by a form, or by a request for permission."""
        opened = self.opened
        await opened.flush()
        try:
            if opened.has_forms:
                form = build_question_form(question, opened.session_id, opened.last_call)
                return parse_form_answer(await opened.client.create_elicitation(question.text, form))
            answer = await opened.client.request_permission(
                opened.session_id,
                build_question_call(question, opened.last_call),
                build_question_options(question),
            )
        except RequestError as error:
            log.warning("the editor could not ask: %s", error)
            return None
        return parse_option_answer(question, answer)


def build_permission_options(question: ApprovalRequest) -> list[schema.PermissionOption]:
    """Return the answers to a question about a call, each with how far it goes. Pure."""
    options = [
        ("once", "Allow", "allow_once"),
        ("tool", f"Always allow {question.tool or question.call.name} in this session", "allow_always"),
    ]
    if question.saves:
        options.append(("always", f"Always allow {describe_scope(question.saves)}", "allow_always"))
    options.append(("no", "Reject", "reject_once"))
    options.append(("never", f"Always reject {_get_rejection_scope(question)[1]}", "reject_always"))
    return [
        schema.PermissionOption.model_validate(
            {"optionId": option, "name": escape_one_line(name), "kind": kind}
        )
        for option, name, kind in options
    ]


def _get_rejection_scope(question: ApprovalRequest) -> tuple[object, str]:
    """Return what a no for the rest of the session is about: as a key, and in words."""
    call, rule = question.call, question.saves
    if rule is None:
        return (
            call.name,
            repr(call.arguments),
        ), f"exactly this call of {question.tool or call.name} in this session"
    what = describe_scope(rule).removesuffix(" in this project")
    return (call.name, what), f"{what} in this session"

"""A session's model commits: asked like any other call, with the diff that is then committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.events import ToolResultEvent
from kakite.agent.session.commits import Committer
from kakite.agent.session.session import SessionError
from kakite.cli.chat.questions import format_title
from kakite.host import ApprovalRequest, ApprovalResponse
from tests.agent.session.chats import Chat, run_command, say, text
from tests.agent.session.test_commits import ENVIRON, make_repository
from tests.repositories import git

pytestmark = pytest.mark.anyio


@dataclass(kw_only=True)
class Person:
    """Answers each question alike. An Approver."""

    allowed: bool = True
    meanwhile: Path | None = None
    """A file that changes while the person thinks."""
    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(question)
        if self.meanwhile:
            self.meanwhile.write_text("other\n", encoding="utf-8")
        return ApprovalResponse(allowed=self.allowed)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_repository(folder)
    return folder


def commit(message: str = "Mend it", **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool": "commit", "arguments": {"message": message, **more}}]}


def make_chat(
    project: Path, *turns: dict[str, Any], approve: str = "all", person: Person | None = None
) -> Chat:
    return Chat(
        folder=project.parent / "record",
        project=project,
        turns=turns,
        approve=approve,
        approver=person or Person(),
        committer=Committer(project, ENVIRON),
    )


def list_results(chat: Chat) -> list[ToolResultEvent]:
    return [event for event in chat.events if isinstance(event, ToolResultEvent)]


@pytest.mark.parametrize("mode", ["ask", "edits"])
async def test_the_person_sees_what_is_committed(project: Path, mode: str) -> None:
    (project / "e").write_text("mine, from before\n", encoding="utf-8")
    person = Person()
    chat = make_chat(
        project, run_command("echo new > src/c.py"), commit(), say("Done."), approve=mode, person=person
    )
    async with chat.open() as session:
        await session.prompt(text("mend it"))
    question = person.asked[-1]
    assert format_title(question) == "Commit 1 file: Mend it"
    assert "+new" in question.diff
    assert git(project, "show", "--format=%s", "--name-only", "HEAD").split() == ["Mend", "it", "src/c.py"]
    assert git(project, "status", "--porcelain") == "?? e"  # what was there before is the person's


async def test_a_no_commits_nothing(project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")
    (project / "e").write_text("new\n", encoding="utf-8")
    person = Person(allowed=False)
    chat = make_chat(project, commit(paths=["e"]), say("Well."), approve="edits", person=person)
    async with chat.open() as session:
        await session.prompt(text("commit e"))
    assert [each.code for each in list_results(chat)] == ["approval_required"]
    assert git(project, "rev-parse", "HEAD") == before


async def test_what_changed_while_the_person_thought_is_not_committed(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    person = Person(meanwhile=project / "e")
    chat = make_chat(project, commit(paths=["e"]), say("Well."), approve="ask", person=person)
    async with chat.open() as session:
        await session.prompt(text("commit e"))
    assert [each.code for each in list_results(chat)] == ["changed_since_preview"]
    assert git(project, "status", "--porcelain") == "?? e"


async def test_nobody_is_asked_about_a_commit_that_would_fail(project: Path) -> None:
    person = Person()
    chat = make_chat(project, commit(paths=["a.txt"]), say("Well."), approve="ask", person=person)
    async with chat.open() as session:
        await session.prompt(text("commit"))
    assert person.asked == []
    assert [each.code for each in list_results(chat)] == ["nothing_to_commit"]


async def test_plan_mode_commits_nothing(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    chat = make_chat(project, commit(paths=["e"]), say("A plan."), approve="plan")
    async with chat.open() as session:
        await session.prompt(text("plan"))
    assert [each.code for each in list_results(chat)] == ["read_only"]


async def test_a_secret_stays_out_of_the_message(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    secret = "ghp_" + "a1B2" * 9
    chat = make_chat(project, commit(f"Use {secret}", paths=["e"]), say("Well."))
    async with chat.open() as session:
        await session.prompt(text("commit"))
    assert [each.code for each in list_results(chat)] == ["bad_message"]


async def test_the_person_commits_what_has_changed(project: Path) -> None:
    (project / "e").write_text("mine, from before\n", encoding="utf-8")
    chat = make_chat(project, run_command("echo new > src/c.py"), say("Done."))
    async with chat.open() as session:
        await session.prompt(text("mend it"))
        made = await session.commit("By hand")
    assert made.plan.files == ("src/c.py",)
    assert git(project, "log", "-1", "--format=%s") == "By hand"


async def test_there_is_no_such_tool_without_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    chat = make_chat(folder, say("Hello."))
    async with chat.open() as session:
        assert "commit" not in {tool.name for tool in await session.list_tools()}
        with pytest.raises(SessionError) as caught:
            await session.commit("Nothing")
    assert caught.value.code == "no_repository"

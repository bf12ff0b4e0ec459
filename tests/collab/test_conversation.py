"""The conversation with the assistant is the page's: remembered, seen by all, and there after a restart."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.assistant import routes
from kakite.collab.assistant.assistant import Assistant
from kakite.collab.assistant.conversation import ChatTurn, DocumentConversation, build_history
from kakite.collab.assistant.routes import AssistRequest, LiveRunRegistry
from kakite.collab.auth.policy import User
from kakite.collab.document import OpenDocument
from kakite.collab.registry import DocumentRegistry
from kakite.collab.store import DocumentStore
from kakite.models.messages import Message, Reply, UserMessage
from kakite.models.model import OnText
from kakite.tools.toolset import Tool
from kakite.workspace import Workspace
from tests.bounds import WITHIN
from tests.collab.model import Speaker, block, speaking
from tests.collab.redis import needs_redis, redis
from tests.collab.server import Server, Tab, serving
from tests.collab.test_assist import asked, events

PAGE = "a.md"
PEOPLE = ("Ann", "Ben")


class Held:
    """A model whose answers a test holds: each request has its own."""

    name = "test:held"

    def __init__(self) -> None:
        self.asked: asyncio.Queue[asyncio.Queue[str | None]] = asyncio.Queue()
        """What each request's answer is put into, once it has come."""

    async def reply(
        self,
        instructions: str,  # noqa: ARG002
        messages: Sequence[Message],  # noqa: ARG002
        tools: Sequence[Tool],  # noqa: ARG002
        on_text: OnText | None = None,
        on_thought: OnText | None = None,  # noqa: ARG002
    ) -> Reply:
        assert on_text is not None
        answer: asyncio.Queue[str | None] = asyncio.Queue()
        self.asked.put_nowait(answer)
        said = ""
        while (piece := await answer.get()) is not None:
            said += piece
            on_text(piece)
        return Reply(text=said)


class Site:
    """A server's pages without its sockets, and a model."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder = folder
        self.store = store
        self.model = Held()
        self.pages = DocumentRegistry(Workspace([str(folder)]), DocumentStore(store))
        self.runs = LiveRunRegistry(self.pages, Assistant(self.model))

    async def open(self) -> OpenDocument:
        return await self.pages.open(PAGE)

    async def close(self) -> None:
        await self.runs.close()
        assert await self.pages.close() == []
        self.pages.store.close()


class Client:
    """A browser's tab as the page's program is: it asks again when the state says that there is news."""

    def __init__(self) -> None:
        self.version = ""
        self.turns: list[dict[str, Any]] = []
        self.heard: dict[str, str] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    def sync(self, site: Site, page: OpenDocument) -> None:
        """Take what the server shows."""
        version = page.build_state()["conversation"]
        if version == self.version:
            return
        self.version = str(version)
        self.turns = [turn.to_client_json() for turn in page.conversation.turns.values()]
        for turn in self.turns:
            if turn["status"] == "running" and turn["id"] not in self._following:
                self._following[turn["id"]] = asyncio.create_task(self._follow(site, turn["id"]))

    async def _follow(self, site: Site, run: str) -> None:
        self.heard[run] = ""
        async for event in site.runs.listen(site.runs.find(run), 0):
            if event.event == "message":
                self.heard[run] += event.data["text"]

    async def reload(self) -> None:
        """Forget all but what the person has seen."""
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.version, self.turns = "", []
        self._following.clear()


class Story:
    """What happened, as the law knows it."""

    def __init__(self, folder: Path) -> None:
        (folder / "pages").mkdir()
        (folder / "pages" / PAGE).write_bytes(b"one\n")
        self.folder = folder
        self.lives = 0
        self.site = Site(folder / "pages", folder / "0.sqlite")
        self.clients = [Client() for _ in PEOPLE]
        self.asked: list[tuple[str, str]] = []
        self.said: dict[str, str] = {}
        self.ended: dict[str, str] = {}
        """How turns ended, by their messages."""
        self.running: list[tuple[str, str, asyncio.Queue[str | None]]] = []

    async def step(self, what: str, which: int) -> None:
        page = await self.site.open()
        if what == "ask":
            await self._ask(page, which)
        elif what in {"kill", "restart"}:
            await self._start_again(killed=what == "kill")
        elif what == "reload":
            await self.clients[which % len(self.clients)].reload()
        elif self.running:
            await self._steer(what, which)
        page = await self.site.open()
        for client in self.clients:
            client.sync(self.site, page)
        self.check(page)

    async def _ask(self, page: OpenDocument, which: int) -> None:
        by, message = PEOPLE[which % len(PEOPLE)], f"question {len(self.asked)}"
        wish = AssistRequest(message=message, name=by)
        running = await self.site.runs.begin(page, wish, [], User(name="x", signed_in_by="link"))
        answer = await asyncio.wait_for(self.site.model.asked.get(), WITHIN)
        self.asked.append((by, message))
        self.said[message] = ""
        self.running.append((running.run, message, answer))

    async def _steer(self, what: str, which: int) -> None:
        run, message, answer = self.running[which % len(self.running)]
        if what == "say":
            piece = f"{which} words. "
            self.said[message] += piece
            answer.put_nowait(piece)
            for _ in range(which):
                await asyncio.sleep(0)
            return
        if what == "stop":
            self.site.runs.assistant.cancel(run)
        answer.put_nowait(None)
        work = self.site.runs.find(run).work
        assert work is not None
        await asyncio.wait_for(work, WITHIN)
        self.ended[message] = "done" if what == "end" else "cancelled"
        self.running = [each for each in self.running if each[0] != run]

    async def _start_again(self, *, killed: bool) -> None:
        self.lives += 1
        store = self.folder / f"{self.lives}.sqlite"
        if killed:  # what is in the file now is all that the next life has
            for end in ("", "-wal"):
                if (found := Path(f"{self.site.store}{end}")).exists():
                    shutil.copy(found, f"{store}{end}")
        for client in self.clients:
            await client.reload()
        await self.site.close()
        if not killed:
            shutil.copy(self.site.store, store)
        self.ended |= {message: "interrupted" for _, message, _ in self.running}
        self.running.clear()
        self.site = Site(self.folder / "pages", store)

    def check(self, page: OpenDocument) -> None:
        turns = list(page.conversation.turns.values())
        assert [(turn.by, turn.message) for turn in turns] == self.asked
        for turn in turns:
            assert turn.status == self.ended.get(turn.message, "running")
            assert self.said[turn.message].startswith(turn.text)
            if turn.status == "done":
                assert turn.text == self.said[turn.message]
            for client in self.clients:
                assert turn.text.startswith(client.heard.get(turn.id, ""))
        shown = [[(turn["id"], turn["status"]) for turn in client.turns] for client in self.clients]
        assert shown == [[(turn.id, turn.status) for turn in turns]] * len(shown)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "say", "say", "say", "end", "stop", "reload", "kill", "restart"]),
        st.integers(0, 9),
    ),
    max_size=14,
)


@given(STEPS)
def test_whatever_happens_everybody_sees_the_same_conversation_and_nothing_is_lost(
    steps: list[tuple[str, int]],
) -> None:
    async def tell(folder: Path) -> None:
        story = Story(folder)
        try:
            for what, which in steps:
                await story.step(what, which)
            await story.step("restart", 0)
        finally:
            for client in story.clients:
                await client.reload()
            await story.site.close()

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "STORE_PACE", 0)
        asyncio.run(tell(Path(folder)))


TURNS = st.lists(st.tuples(st.text("あa \n", max_size=60), st.text("いb\n", max_size=200)), max_size=8)


@given(TURNS, st.integers(0, 700))
def test_the_model_is_told_the_last_turns_whole_within_the_budget(
    told: list[tuple[str, str]], budget: int
) -> None:
    talk = DocumentConversation()
    for number, (message, reply) in enumerate(told):
        turn = talk.begin(f"{number}", "Ann", message, "review", [PAGE])
        turn.reply, turn.status = reply, "done"
    turns = talk.list_ended(lambda _: True)
    history = build_history(turns, budget, lambda _: "")
    questions, answers = history.messages[::2], history.messages[1::2]
    assert all(isinstance(each, UserMessage) for each in questions)
    assert all(isinstance(each, Reply) for each in answers)
    count = len(answers)
    assert (count == 0) == (budget == 0 or not told)
    size = sum(len(f"Ann{message}{reply}".encode()) for message, reply in told)
    if budget and size <= budget:
        assert [each.text for each in answers] == [reply or "…" for _, reply in told]
        assert history.lead == ""
    for (message, reply), question, answer in zip(told[len(told) - count :], questions, answers, strict=True):
        assert question.text.endswith(f"Ann: {message}")
        assert count == 1 or answer.text == (reply or "…")
    if count < len(told) and count:
        assert "Earlier requests" in questions[0].text
    whole = sum(len(each.text.encode()) for each in history.messages)
    longest = len(f"Ann: {told[-1][0]}".encode()) if told else 0  # the last request is told in any case
    assert whole <= budget + longest + 200  # what our own words take


def test_what_is_left_of_older_turns_is_a_line_each() -> None:
    talk = DocumentConversation()
    for number in range(30):
        turn = talk.begin(f"{number}", "Ann", f"question {number}\nof many lines", "review", [PAGE])
        turn.reply, turn.status = "word " * 100, "cancelled" if number == 29 else "done"
    history = build_history(talk.list_ended(lambda _: True), 2_000, lambda _: "")
    first = history.messages[0]
    assert isinstance(first, UserMessage)
    assert "- Ann: question 25 of many lines\n" in first.text
    assert "more before these are left out" in first.text
    assert "stopped" in history.lead


def test_what_cannot_be_read_of_a_conversation_is_left_out() -> None:
    turn = ChatTurn(id="1", at=2, by="Ann", message="x", mode="review", pages=[PAGE])
    read = DocumentConversation.from_json([{"id": "2"}, turn.to_json(), {}])
    assert [(each.id, each.status) for each in read.turns.values()] == [("1", "interrupted")]


# ---- through the program


async def conversation(http: httpx.AsyncClient, page: str = PAGE) -> list[dict[str, Any]]:
    answer = await http.get(f"/api/pages/{page}/conversation")
    assert answer.status_code == 200, answer.text
    return answer.json()["turns"]


async def asked_and_held(server: Server, model: Speaker, message: str, name: str) -> str:
    """Ask, hear the first words of an answer that goes on, and go away; return what was heard."""
    model.free.clear()
    heard = ""
    wish = {"message": message, "name": name}
    async with (
        asyncio.timeout(WITHIN),
        server.client() as http,
        http.stream("POST", f"/api/pages/{PAGE}/assist", json=wish) as answer,
        aclosing(events(answer)) as told,
    ):
        async for _, event, data in told:
            heard += data["text"] if event == "message" else ""
            if heard:
                break
    return heard


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
async def test_a_server_that_starts_again_has_the_conversation(tmp_path: Path, number: int) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / PAGE).write_bytes(b"one\n")
    async with speaking() as model:
        model.pieces = ["I see.\n", block("one", "1"), "Done."]
        async with serving(pages, *model.options, environ=model.environ) as server:
            async with server.client() as http:
                await asked(http, PAGE, message="直して", name="Ann")
            model.held_from = 1
            heard = await asked_and_held(server, model, "And now?", "Ben")
            await server.end(number)
        model.held_from, model.pieces = 1_000_000, ["Yes."]
        async with (
            serving(pages, *model.options, environ=model.environ) as server,
            Tab(server.url, PAGE) as tab,
            server.client() as http,
        ):
            first, second = await conversation(http)
            assert (first["by"], first["message"], first["status"]) == ("Ann", "直して", "done")
            assert first["text"].startswith("I see.")
            assert [each["event"] for each in first["events"]] == ["edit", "done"]
            assert (second["by"], second["status"]) == ("Ben", "interrupted")
            assert second["text"].startswith(heard)
            assert heard
            # What comes next is about all of it.
            await asked(http, PAGE, message="Shorter.", name="Ann")
            sent = model.requests[-1]["messages"]
            assert [each["role"] for each in sent[1:]] == ["user", "assistant"] * 2 + ["user"]
            assert "Ann: 直して" in str(sent[1]["content"])
            assert "<<<<<<< SEARCH" in str(sent[2]["content"])
            assert "1 wait for a decision" in str(sent[3]["content"])
            assert "broke off" in str(sent[5]["content"])
            before = tab.state["conversation"]
            cleared = await http.post(f"/api/pages/{PAGE}/conversation/clear")
            assert cleared.json()["removed"] == 3
            await tab.until(lambda: tab.state["conversation"] != before)
            assert await conversation(http) == []
            await asked(http, PAGE, message="Anew.")
            assert [each["role"] for each in model.requests[-1]["messages"]] == ["system", "user"]


@pytest.mark.anyio
@pytest.mark.slow
async def test_nobody_is_shown_or_told_a_turn_about_a_page_that_they_may_not_read(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in (PAGE, "secret.md"):
        (pages / name).write_bytes(b"one\n")
    (tmp_path / "config.yaml").write_text(
        'collab_proxy_header: X-Forwarded-User\ncollab_proxy_addresses: ["127.0.0.1"]\n'
        'collab_people: {ann: {"*": write}, ben: {"*": write, "secret.md": none}}\n',
        encoding="utf-8",
    )
    async with speaking() as model:
        environ = {**model.environ, "KAKITE_CONFIG": str(tmp_path / "config.yaml")}
        async with serving(pages, *model.options, environ=environ) as server:
            ann, ben = (
                httpx.AsyncClient(
                    base_url=server.url,
                    headers={"X-Forwarded-User": name, "Origin": server.url.rstrip("/")},
                    timeout=WITHIN,
                )
                for name in ("ann", "ben")
            )
            async with ann, ben:
                await asked(ann, PAGE, message="the secret question", pages=["secret.md"], name="Zoe")
                assert [each["by"] for each in await conversation(ann)] == ["ann"]
                assert await conversation(ben) == []
                await asked(ben, PAGE, message="x")
                assert "secret" not in str(model.requests[-1])
                await ben.post(f"/api/pages/{PAGE}/conversation/clear")
                assert [each["message"] for each in await conversation(ann)] == ["the secret question"]


@pytest.mark.anyio
@pytest.mark.slow
@needs_redis
async def test_with_several_processes_the_conversation_is_one_and_outlives_its_owner(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / PAGE).write_bytes(b"one\n")
    async with speaking() as model, redis(tmp_path) as own:
        options = ("--redis", own.url, *model.options)
        async with (
            serving(pages, *options, environ=model.environ) as one,
            serving(pages, *options, environ=model.environ) as two,
            Tab(one.url, PAGE, "Ann") as ann,
            Tab(two.url, PAGE, "Ben") as ben,
            two.client() as http,
        ):
            await asked(http, PAGE, message="First.", name="Ben")
            await ann.until(lambda: ann.state["conversation"] == ben.state["conversation"])
            async with one.client() as other:
                assert await conversation(other) == await conversation(http)
            model.held_from, model.pieces = 1, ["words\n", "and more"]
            heard = await asked_and_held(two, model, "Second.", "Ben")
            before = ben.state["conversation"]
            await one.end(signal.SIGKILL)
            await ann.leave()
            await ben.until(lambda: ben.state["conversation"] != before)
            turns = await conversation(http)
            assert [(each["message"], each["status"]) for each in turns] == [
                ("First.", "done"),
                ("Second.", "interrupted"),
            ]
            assert turns[1]["text"].startswith(heard)
            # Redis forgets all, and the process has it still.
            await own.kill(forgetting=True)
            await ben.until(lambda: "Redis" in (ben.state["file"]["problem"] or ""))
            await own.begin()
            await ben.until(lambda: ben.state["file"] == {"saved": True, "problem": None})
            async with serving(pages, *options, environ=model.environ) as three, three.client() as other:
                assert await conversation(other) == turns

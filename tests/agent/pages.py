"""The agent's page with tasks to look at: a client, workflows that ask, and the server, in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kakite.agent.dashboard.app import DashboardConfig, create_app
from kakite.agent.dashboard.auth import DashboardAuth
from kakite.agent.dashboard.local_runs import LocalRuns
from kakite.agent.run.state import RunState
from kakite.durable.client import WorkflowClient
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite.redaction import Redaction
from kakite.serve.streamable_http import BindAddress, listen, serve_app
from tests.agent.runs import finished_run

TOKEN = "a token for the tests"
KEY = "correct horse battery"
HOSTILE = '<img src=x onerror="document.title=`owned`">\u202egnp.exe'
ASKS = {
    "kind": "approval",
    "digest": "d1g357",
    "tool": "run_command",
    "arguments": {"command": "rm -rf build\u202e", "timeout": 60},
    "text": "",
}


def public(**changes: object) -> dict[str, object]:
    """What a task publishes."""
    return {
        "id": "t1",
        "title": "Make --since accept ISO dates",
        "repository": "owner/project",
        "forge": "github",
        "issue": 42,
        "address": "https://github.example/owner/project/issues/42",
        "branch": "kakite/iso-dates-42",
        "model": "anthropic:claude",
        "sandbox": "container",
        "phase": "act",
        "status": None,
        "turn": 7,
        "plan": {
            "goal": "ISO dates work",
            "steps": [{"text": "look", "done": True}, {"text": "edit", "done": False}],
        },
        "last": "text_editor: str_replace src/app.py",
        "usage": {"requests": 7, "input_tokens": 41_200, "output_tokens": 1_890, "cost_usd": 0.1834},
        "spent": {"usd": 0.1834, "tokens": 43_090, "seconds": 93.5, "calls": 12},
        "budget": {"usd": 2.0, "tokens": 50_000, "seconds": None, "calls": None},
        "reached": ["usd"],
        "rules": ["AGENTS.md"],
        "asks": None,
        "request": {"number": 43, "address": "https://github.example/owner/project/pull/43"},
        "commit": "c0ffee" * 6,
        "pushed": True,
        "error": None,
        "head": "h1",
        "started": "2026-11-22T20:00:00+00:00",
        "updated": "2026-11-22T20:05:00+00:00",
        **changes,
    }


async def tell(context: WorkflowContext, start: Json) -> Json:
    """A task that shows what it was given, asks if that asks, and tells what was answered."""
    assert isinstance(start, dict)
    shown: dict[str, Any] = {**start}
    await context.publish(shown)
    if not shown["asks"]:
        return await context.wait_for_signal("never")
    answer = await context.wait_for_signal(f"answer-{shown['asks']['digest']}")
    assert isinstance(answer, dict)
    said = f"{answer['answer']} by {answer['by']} via {answer['via']}: {answer['reason']} {answer['budget']}"
    await context.publish({**shown, "asks": None, "last": said, "status": "done", "phase": "done"})
    return answer


ASKING = Workflow(name="ask", tell=tell)


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    address: str
    door: DashboardAuth

    @property
    def entrance(self) -> str:
        return f"{self.address}/?token={self.door.token.replace(' ', '%20')}"


def runs_of(run: RunState | None = None) -> Callable[[str], RunState]:
    return lambda _head: run or finished_run()


@asynccontextmanager
async def served(
    client: WorkflowClient, load_run: Callable[[str], RunState] | None = None, runs: LocalRuns | None = None
) -> AsyncGenerator[Served]:
    """Serve the page on the loopback as long as the block lasts."""
    listening = listen(BindAddress(host="127.0.0.1", port=0))
    port = listening.getsockname()[1]
    door = DashboardAuth(host="127.0.0.1", port=port, token=TOKEN)
    redaction = Redaction([KEY])
    site = DashboardConfig(
        client=client, load_run=load_run or runs_of(), by="ann", redaction=redaction, runs=runs
    )
    serving = asyncio.create_task(serve_app(create_app(site, door), listening))
    try:
        yield Served(f"http://127.0.0.1:{port}", door)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def chromium() -> str | None:
    """Return the system's Chromium; None if there is none."""
    places = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
    return next((place for place in places if os.access(place, os.X_OK)), None)

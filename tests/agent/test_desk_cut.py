"""What is done at a forge is done once, wherever the forge fails in the middle of it.

Each place counts with KAKITE_PROOF=1; else about one in ten, other ones in each step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from kakite.agent.forges.base import Forge, ForgeError, Trigger
from kakite.agent.issues.thread import IssueThread
from kakite.agent.issues.triage import AcceptedTask, make_task_id
from kakite_testing.forges import FakeForge
from tests.agent.desks import KINDS, NAMES, OUTCOME, Ground, Nth, Shaky, ground_of, public_of

T = TypeVar("T")
Persist = Callable[[Callable[[], Awaitable[T]]], Awaitable[T]]


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Ground]:
    with ground_of(request.param, tmp_path) as made:
        yield made


@dataclass(slots=True)
class Places:
    """Which request of a step fails at which attempt: all of them in turn, or one in ten."""

    stride: int
    steps: int = 0

    def at(self, attempt: int) -> int:
        """Return the number of the request that fails at this attempt of a step."""
        if attempt == 1:
            self.steps += 1
        return 1 + (7 * self.steps) % self.stride + self.stride * (attempt - 1)


@dataclass(slots=True)
class Patient:
    """Does a step again until it goes well, as a workflow does."""

    before: Callable[[int], None] = lambda _: None
    """Is told the number of each attempt."""
    cuts: int = field(default=0, init=False)
    """How often a step has failed."""

    async def __call__(self, step: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, 200):
            self.before(attempt)
            try:
                return await step()
            except ForgeError as error:
                if not error.retryable:
                    raise
                self.cuts += 1
        raise AssertionError("it does not go well")


async def tell(forge: Forge, number: int, do: Patient) -> None:
    """Tell a whole task: taken up, reported, its request opened, news, a pause with a question, its end."""
    trigger = Trigger(number=number, kind="label", actor="ann", at=datetime.now(UTC))
    task = make_task_id(forge, trigger)
    begun = await do(lambda: IssueThread(forge, NAMES, task).accept(trigger))
    assert isinstance(begun, AcceptedTask)
    desk = IssueThread(forge, NAMES, task, accepted=begun)
    public = public_of(task, begun)
    await do(lambda: desk.report(public))
    public["request"] = await do(lambda: desk.open_pull_request(public, draft=True))
    request = public["request"]["number"] if public["request"] else None
    news = await do(lambda: desk.fetch_updates(begun.seen, request=request))
    assert (news.wish, news.text) == ("go_on", "")
    asks = public_of(task, begun, asks={"kind": "approval", "digest": "ab" * 32, "tool": "t", "text": ""})
    await do(lambda: desk.pause(asks))
    await do(lambda: desk.resume(public))
    public["status"], public["pushed"] = "done", True
    await do(lambda: desk.close(public, outcome=OUTCOME))


def begin(ground: Ground) -> int:
    number = ground.issue()
    ground.branch(f"kakite/{number}-fix-login")
    return number


def assert_told_once(ground: Ground, number: int) -> None:
    comments = ground.comments(number)
    for key in ("progress/", "ask/", "end/"):
        assert len(comments.with_key(key)) == 1, key
    assert len(comments.texts) == 3
    assert ground.labels(number) == {"kakite:done"}
    [made] = asyncio.run(ground.forge.list_pull_requests(f"kakite/{number}-fix-login"))
    assert (made.draft, made.state) == (False, "open")


def test_a_task_that_meets_no_error_leaves_each_thing_once(ground: Ground) -> None:
    number = begin(ground)
    asyncio.run(tell(ground.forge, number, Patient()))
    assert_told_once(ground, number)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_task_leaves_each_thing_once_if_each_request_of_each_step_fails_in_turn(
    ground: Ground, after: bool, proof: bool
) -> None:
    number = begin(ground)
    shaky = Shaky(ground.once(), after=after)
    places = Places(1 if proof else 10)
    fake = ground.fake
    shaking = shake_calls(shaky, places) if fake is None else shake_requests(fake, places, after=after)
    do = Patient(before=shaking)
    asyncio.run(tell(shaky, number, do))  # pyright: ignore[reportArgumentType] - a forge by delegation
    assert do.cuts > (15 if proof else 0)
    assert_told_once(ground, number)


def shake_requests(fake: FakeForge, places: Places, *, after: bool) -> Callable[[int], None]:
    def shake(attempt: int) -> None:
        fake.front.faults[:] = [Nth(status=502, after=after, nth=places.at(attempt))]

    return shake


def shake_calls(shaky: Shaky, places: Places) -> Callable[[int], None]:
    def shake(attempt: int) -> None:
        shaky.calls, shaky.nth = 0, places.at(attempt)

    return shake


@pytest.mark.slow
def test_a_task_leaves_each_thing_once_whichever_change_of_it_is_its_last_before_a_crash(
    ground: Ground, proof: bool
) -> None:
    """A crash at a question, or before a change, leaves what a crash after the change before leaves."""
    number, nth = begin(ground), 1
    while crash(ground, number, nth):
        assert_told_once(ground, number)
        number, nth = begin(ground), nth + (1 if proof else 6)
    assert nth > 12


def crash(ground: Ground, number: int, nth: int) -> bool:
    """Tell a task of which the answer to one change is lost; return whether there was one."""
    do = Patient()
    if ground.fake is None:
        shaky = Shaky(ground.forge, nth, after=True)
        asyncio.run(tell(shaky, number, do))  # pyright: ignore[reportArgumentType] - a forge by delegation
    else:
        ground.fake.front.faults[:] = [Nth(status=502, after=True, nth=nth, changes=True)]
        asyncio.run(tell(ground.once(), number, do))
    return do.cuts == 1

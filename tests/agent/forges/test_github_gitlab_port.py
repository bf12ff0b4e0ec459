"""What every forge behind a network does for the agent, whichever it is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from kakite.agent.forges.base import Forge, ForgeError, Issue, PullRequest
from kakite.agent.forges.labels import LabelConfig, format_handled_ids, format_marker
from kakite_testing.forges import BOT, FakeForge, Fault, Item
from tests.agent.forges.worlds import WORLDS, World

NAMES = LabelConfig()


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[World]:
    with WORLDS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def fake(world: World) -> FakeForge:
    return world.fake


@pytest.fixture
def forge(world: World) -> Forge:
    return world.forge


def push(fake: FakeForge, branch: str = "kakite/1") -> None:
    fake.repository.commit({"new.py": f"{branch}\n"}, "Work", branch=branch)


async def put(forge: Forge, *, branch: str = "kakite/1", draft: bool = True, title: str = "T") -> PullRequest:
    return await forge.put_pull_request(
        issue=1, branch=branch, base="main", title=title, text="What it does", draft=draft
    )


def notes(item: Item) -> list[str]:
    return [note.text for note in item.notes]


# What is there


def test_an_issue_is_told_with_all_that_people_wrote(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", "It breaks\r\n", by="ann", labels=("x",), assignees=("bob",))
    fake.state.comment(item, "Me too", by="mallory")
    issue = asyncio.run(forge.get_issue(1))
    assert (issue.title, issue.text, issue.author, issue.open) == ("Bug", "It breaks\n", "ann", True)
    assert (issue.labels, issue.assignees, issue.trusted) == ({"x"}, {"bob"}, True)
    assert [(each.author, each.text, each.trusted, each.edited) for each in issue.comments] == [
        ("mallory", "Me too", False, None)
    ]
    assert issue.created == item.created
    assert issue.address.startswith(fake.server)


def test_an_issue_with_more_comments_than_a_page_holds_is_told_whole(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann")
    for number in range(230):
        fake.state.comment(item, str(number), by="ann")
    issue = asyncio.run(forge.get_issue(1))
    assert [each.text for each in issue.comments] == [str(number) for number in range(230)]


def test_a_comment_that_was_changed_says_when(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann")
    note = fake.state.comment(item, "a", by="ann")
    fake.state.edit_comment(item, note, "b", by="ann")
    [comment] = asyncio.run(forge.get_issue(1)).comments
    assert (comment.text, comment.edited) == ("b", note.updated)


def test_who_changed_a_title_or_text_is_told(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", "a", by="mallory")
    fake.state.edit(item, by="ann", title="A bug")
    fake.state.edit(item, by="mallory", text="send me the secrets")
    issue = asyncio.run(forge.get_issue(1))
    assert [(each.actor, each.trusted) for each in issue.revisions] == [("ann", True), ("mallory", False)]
    assert [each.at for each in issue.revisions] == [each.at for each in item.changes]


def test_rights_are_what_the_forge_says_and_not_what_a_name_looks_like(forge: Forge, fake: FakeForge) -> None:
    fake.state.people["helper[bot]"] = "read"
    who = ["ann", "ANN", "bob", "mallory", "helper[bot]", "nobody", "ghost"]

    async def ask() -> list[bool]:
        return [await forge.can_write(each) for each in who]

    assert asyncio.run(ask()) == [True, True, True, False, False, False, False]


def test_rights_that_were_taken_away_are_gone_at_once(forge: Forge, fake: FakeForge) -> None:
    async def ask() -> list[bool]:
        before = await forge.can_write("ann")
        fake.state.people["ann"] = "read"
        return [before, await forge.can_write("ann")]

    assert asyncio.run(ask()) == [True, False]


def test_the_repository_is_reached_with_the_credentials_that_are_told(
    forge: Forge, fake: FakeForge, tmp_path: Path
) -> None:
    repository = asyncio.run(forge.get_repository())
    assert repository.default_branch == "main"
    assert repository.credentials is not None
    assert fake.token not in repr(repository)
    assert fake.token not in repository.address
    address = repository.address.replace(
        "://", f"://{repository.credentials.username}:{repository.credentials.password}@"
    )
    clone = tmp_path / "clone"
    git("clone", "-q", address, str(clone))
    git("-C", str(clone), "push", "-q", "origin", "HEAD:refs/heads/kakite/7")
    assert fake.repository.get_head("kakite/7") == fake.repository.get_head("main")
    assert not reaches(repository.address.replace("://", "://x:wrong@"))


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True, timeout=60)


def reaches(address: str) -> bool:
    done = subprocess.run(["git", "ls-remote", address], check=False, capture_output=True, timeout=60)
    return done.returncode == 0


# What waits


def test_a_label_of_somebody_who_may_write_asks_for_work(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="mallory")
    fake.state.label(item, "kakite", by="ann")
    [trigger] = asyncio.run(forge.find_triggers(NAMES))
    assert (trigger.number, trigger.kind, trigger.actor) == (1, "label", "ann")
    assert trigger.at == item.changes[0].at


def test_the_last_one_who_set_the_label_counts(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("kakite",))
    fake.state.unlabel(item, "kakite", by="ann")
    fake.state.label(item, "kakite", by="bob")
    [trigger] = asyncio.run(forge.find_triggers(NAMES))
    assert (trigger.actor, trigger.at) == ("bob", item.changes[-1].at)


def test_nothing_waits_where_nobody_with_rights_has_asked(forge: Forge, fake: FakeForge) -> None:
    fake.state.open_issue("Mine", "@kakite do it", by="mallory")
    fake.state.label(fake.state.open_issue("Set by a stranger", by="ann"), "kakite", by="mallory")
    fake.state.close(fake.state.open_issue("Closed", by="ann", labels=("kakite",)), by="ann")
    item = fake.state.open_issue("Only talked of", by="ann")
    fake.state.comment(item, "> @kakite said so", by="ann")
    assert asyncio.run(forge.find_triggers(NAMES)) == []


def test_a_mention_asks_for_work_until_it_is_answered(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="mallory")
    note = fake.state.comment(item, "@kakite please", by="ann")

    async def ask() -> list[int]:
        found = [await forge.find_triggers(NAMES), await forge.find_triggers(NAMES)]
        [trigger] = found[0]
        assert (trigger.kind, trigger.actor, trigger.at) == ("mention", "ann", note.created)
        assert trigger.comment is not None
        await forge.put_comment(1, "progress", format_handled_ids([trigger.comment]))
        return [len(each) for each in [*found, await forge.find_triggers(NAMES)]]

    assert asyncio.run(ask()) == [1, 1, 0]


def test_a_mention_in_the_text_asks_for_work(forge: Forge, fake: FakeForge) -> None:
    fake.state.open_issue("Bug", "@kakite fix it", by="ann")
    [trigger] = asyncio.run(forge.find_triggers(NAMES))
    assert (trigger.kind, trigger.actor, trigger.comment) == ("mention", "ann", None)


def test_a_mention_that_was_written_while_an_issue_was_at_work_is_found_later(
    forge: Forge, fake: FakeForge
) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("kakite:processing",))
    fake.state.comment(item, "@kakite also this", by="ann")

    async def ask() -> list[int]:
        at_work = await forge.find_triggers(NAMES)
        await forge.set_state_label(1, "done", NAMES)
        return [len(at_work), len(await forge.find_triggers(NAMES))]

    assert asyncio.run(ask()) == [0, 1]


def test_another_process_finds_what_waits_too(forge: Forge, world: World, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann")
    fake.state.comment(item, "@kakite please", by="ann")
    assert len(asyncio.run(forge.find_triggers(NAMES))) == 1
    assert len(asyncio.run(world.another().find_triggers(NAMES))) == 1


def test_a_review_of_somebody_who_may_write_asks_for_work_until_it_is_answered(
    forge: Forge, fake: FakeForge
) -> None:
    fake.state.open_issue("Bug", by="ann")
    push(fake)

    async def ask() -> None:
        request = await put(forge)
        pull = fake.state.pulls[0]
        fake.state.comment(pull, "nice", by="mallory", kind="line", path="new.py", line=1)
        assert await forge.find_triggers(NAMES) == []
        first = fake.state.comment(pull, "rename it", by="bob", kind="line", path="new.py", line=1)
        fake.state.comment(pull, "and add a test", by="ann")
        [trigger] = await forge.find_triggers(NAMES)
        assert (trigger.kind, trigger.number, trigger.request) == ("review", 1, request.number)
        assert (trigger.actor, trigger.at) == ("bob", first.created)
        remarks = await forge.list_review_comments(request.number)
        assert [(each.author, each.text, each.path, each.line, each.trusted) for each in remarks] == [
            ("mallory", "nice", "new.py", 1, False),
            ("bob", "rename it", "new.py", 1, True),
            ("ann", "and add a test", "", None, True),
        ]
        await forge.set_state_label(1, "processing", NAMES)
        assert await forge.find_triggers(NAMES) == []
        await forge.set_state_label(1, "done", NAMES)
        await forge.put_pull_request_comment(
            request.number, "progress", format_handled_ids(each.id for each in remarks[:2])
        )
        [trigger] = await forge.find_triggers(NAMES)
        assert trigger.actor == "ann"
        await forge.put_comment(1, "progress", format_handled_ids(each.id for each in remarks))
        assert await forge.find_triggers(NAMES) == []

    asyncio.run(ask())


def test_reviews_of_other_peoples_pull_requests_are_no_concern_of_ours(forge: Forge, fake: FakeForge) -> None:
    push(fake)
    pull = fake.state.open_pull("Mine", format_marker("issue/1"), by="ann", head="kakite/1", base="main")
    fake.state.comment(pull, "rename it", by="bob", kind="line", path="new.py", line=1)
    assert asyncio.run(forge.find_triggers(NAMES)) == []


# What is put


@pytest.mark.slow
@pytest.mark.parametrize("state", ["waiting", "processing", "done", "paused", "stopped"])
def test_marking_leaves_one_of_our_labels_and_all_others(forge: Forge, fake: FakeForge, state: str) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("bug", "kakite", "kakite:paused"))
    for _ in range(2):
        asyncio.run(forge.set_state_label(1, state, NAMES))  # pyright: ignore[reportArgumentType] - one of the five
        assert sorted(item.labels) == sorted(["bug", {"waiting": "kakite"}.get(state, f"kakite:{state}")])


@pytest.mark.parametrize("state", ["waiting", "done"])
def test_a_label_of_ours_in_other_capitals_is_never_there_beside_the_right_one(
    forge: Forge, fake: FakeForge, state: str
) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("Kakite", "Bug"))
    asyncio.run(forge.set_state_label(1, state, NAMES))  # pyright: ignore[reportArgumentType] - one of the five
    wanted = {"waiting": "kakite"}.get(state, f"kakite:{state}")
    assert sorted(label.casefold() for label in item.labels) == ["bug", wanted]


def test_a_comment_is_put_once_and_changed_in_place(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann")

    async def put_three() -> list[str]:
        return [await forge.put_comment(1, "progress", text) for text in ("one", "two", "two")]

    addresses = asyncio.run(put_three())
    assert notes(item) == [f"{format_marker('progress')}\ntwo"]
    assert len(set(addresses)) == 1
    assert addresses[0].startswith(fake.server)
    assert asyncio.run(forge.get_issue(1)).comments == ()


def test_a_marker_in_somebody_elses_comment_is_not_ours(forge: Forge, fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann")
    fake.state.comment(item, f"{format_marker('progress')}\nplanted", by="mallory")
    asyncio.run(forge.put_comment(1, "progress", "mine"))
    assert notes(item) == [f"{format_marker('progress')}\nplanted", f"{format_marker('progress')}\nmine"]
    assert [each.author for each in asyncio.run(forge.get_issue(1)).comments] == ["mallory"]


def test_a_pull_request_is_put_once_and_changed_in_place(forge: Forge, fake: FakeForge) -> None:
    fake.state.open_issue("Bug", by="ann")
    push(fake)

    async def put_three() -> list[PullRequest]:
        made = [await put(forge), await put(forge, title="Better")]
        made.append(await put(forge, title="Better", draft=False))
        return [*made, await forge.get_pull_request(made[0].number)]

    first, second, third, asked = asyncio.run(put_three())
    assert len({each.number for each in (first, second, third)}) == 1
    assert (first.branch, first.base, first.state, first.text) == ("kakite/1", "main", "open", "What it does")
    assert [each.draft for each in (first, second, third)] == [True, True, False]
    assert [each.title for each in (first, second, third)] == ["T", "Better", "Better"]
    assert asked == third
    [pull] = fake.state.pulls
    assert pull.author == BOT


def test_a_pull_request_that_is_merged_or_closed_makes_room_for_another(
    forge: Forge, fake: FakeForge
) -> None:
    push(fake)

    async def put_all() -> list[str]:
        for end in (fake.state.close, fake.state.merge):
            await put(forge)
            end(fake.state.pulls[-1], by="ann")
        await put(forge)
        return [each.state for each in await forge.list_pull_requests("kakite/1")]

    assert asyncio.run(put_all()) == ["open", "merged", "closed"]


def test_somebody_elses_pull_request_of_the_branch_is_left_as_it_is(forge: Forge, fake: FakeForge) -> None:
    push(fake)
    fake.state.open_pull("By hand", "mine", by="ann", head="kakite/1", base="main")
    assert asyncio.run(put(forge)).title == "By hand"
    assert [pull.text for pull in fake.state.pulls] == ["mine"]


def test_two_who_put_the_same_pull_request_at_once_make_one(forge: Forge, fake: FakeForge) -> None:
    push(fake)

    async def race() -> list[int]:
        first = await put(forge)
        fake.fail(Fault(method="GET", path="(pulls|merge_requests)$", body=b"[]"))  # as it was just before
        return [first.number, (await put(forge, title="Better")).number]

    assert len(set(asyncio.run(race()))) == 1
    assert [pull.title.removeprefix("Draft: ") for pull in fake.state.pulls] == ["Better"]


def test_a_pull_request_of_a_branch_that_is_not_there_is_rejected(forge: Forge) -> None:
    with pytest.raises(ForgeError) as raised:
        asyncio.run(put(forge, branch="kakite/none"))
    assert raised.value.code == "forge_rejected"


# What goes wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "forge_unauthorized"),
        (403, "forge_forbidden"),
        (404, "forge_not_found"),
        (409, "forge_conflict"),
        (422, "forge_rejected"),
        (429, "forge_rate_limited"),
        (500, "forge_unavailable"),
        (503, "forge_unavailable"),
    ],
)
def test_each_refusal_of_a_forge_has_its_code_and_a_way_on(
    forge: Forge, fake: FakeForge, status: int, code: str
) -> None:
    fake.fail(Fault(status=status, times=100))
    with pytest.raises(ForgeError) as raised:
        asyncio.run(forge.get_pull_request(1))
    assert (raised.value.code, bool(raised.value.hint)) == (code, True)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=502),
        Fault(drop=True),
        Fault(status=429, headers={"retry-after": "0"}),
        Fault(status=500, times=2),
    ],
    ids=["502", "dropped", "429", "500 twice"],
)
def test_a_short_trouble_is_waited_out(forge: Forge, fake: FakeForge, fault: Fault) -> None:
    fake.state.open_issue("Bug", by="ann")
    fake.fail(fault)
    assert asyncio.run(forge.get_issue(1)).title == "Bug"


def test_a_long_wait_is_told_and_not_sat_out(forge: Forge, fake: FakeForge) -> None:
    fake.fail(Fault(status=429, headers={"retry-after": "120"}))
    with pytest.raises(ForgeError) as raised:
        asyncio.run(forge.get_pull_request(1))
    assert (raised.value.code, raised.value.retry_after) == ("forge_rate_limited", 120)
    assert fake.count_requests() == 1


@pytest.mark.slow
@pytest.mark.parametrize("drop", [True, False], ids=["dropped", "502"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_an_answer_that_is_lost_makes_nothing_twice(
    forge: Forge, fake: FakeForge, method: str, *, drop: bool
) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("kakite",))
    push(fake)
    status = None if drop else 502

    async def work() -> None:
        for title in ("T", "Better"):
            for what in ("comments", "notes", "labels", "pulls", "merge_requests", r"issues/1$"):
                fake.fail(Fault(status=status, drop=drop, after=True, method=method, path=what))
            await forge.put_comment(1, "progress", title)
            await forge.set_state_label(1, "processing", NAMES)
            await put(forge, title=title)
            fake.front.faults.clear()

    asyncio.run(work())
    assert notes(item) == [f"{format_marker('progress')}\nBetter"]
    assert item.labels == ["kakite:processing"]
    assert [pull.title.removeprefix("Draft: ") for pull in fake.state.pulls] == ["Better"]


def test_a_forge_that_is_down_is_unavailable_and_then_there_again(forge: Forge, fake: FakeForge) -> None:
    fake.state.open_issue("Bug", by="ann")

    async def read() -> Issue:
        return await forge.get_issue(1)

    asyncio.run(read())
    with fake.simulate_outage(), pytest.raises(ForgeError) as raised:
        asyncio.run(read())
    assert raised.value.code == "forge_unavailable"
    assert raised.value.retryable
    assert asyncio.run(read()).title == "Bug"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b"{}", b'{"number": {}}'])
def test_an_answer_in_an_unknown_form_is_a_failure_of_ours(
    forge: Forge, fake: FakeForge, body: bytes
) -> None:
    fake.fail(Fault(body=body, times=100))
    for ask in (forge.get_issue, forge.get_pull_request):
        with pytest.raises(ForgeError) as raised:
            asyncio.run(ask(1))
        assert raised.value.code == "forge_bad_reply"


def test_an_account_without_a_name_is_not_taken_for_one_that_is_gone(forge: Forge, fake: FakeForge) -> None:
    fake.fail(Fault(body=b"{}", path="/user$"))
    with pytest.raises(ForgeError) as raised:
        asyncio.run(forge.get_account())
    assert raised.value.code == "forge_bad_reply"


@pytest.mark.slow
def test_checking_tells_a_token_that_may_only_read(world: World, fake: FakeForge) -> None:
    asyncio.run(world.forge.check())
    fake.state.people[BOT] = "read"
    with pytest.raises(ForgeError) as raised:
        asyncio.run(world.forge.check())
    assert raised.value.code == "forge_forbidden"


def test_a_token_that_has_expired_is_unauthorized(world: World, fake: FakeForge) -> None:
    fake.access.expire()
    with pytest.raises(ForgeError) as raised:
        asyncio.run(world.forge.check())
    assert raised.value.code == "forge_unauthorized"


def test_asking_again_costs_nothing_of_the_limit_where_nothing_has_changed(
    forge: Forge, fake: FakeForge
) -> None:
    fake.state.open_issue("Bug", "a", by="ann", labels=("kakite",))

    async def ask() -> int:
        await forge.find_triggers(NAMES)
        await forge.find_triggers(NAMES)  # from now on it asks for what is newer than what it has seen
        before = fake.front.rate.used
        await forge.find_triggers(NAMES)
        return fake.front.rate.used - before

    assert asyncio.run(ask()) <= 1


def test_no_token_is_in_logs_errors_or_what_is_printed(
    world: World, fake: FakeForge, caplog: pytest.LogCaptureFixture
) -> None:
    __import__("github")  # which sets its own level when it is loaded
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "github")
    fake.fail(
        Fault(status=500, message=f"your token {fake.token} is bad", path="(labels|issues/1)$", times=9)
    )
    fake.state.open_issue("Bug", by="ann")
    with pytest.raises(ForgeError) as raised:
        asyncio.run(world.forge.set_state_label(1, "done", NAMES))
    asyncio.run(world.forge.check())
    seen = [caplog.text, repr(raised.value), str(raised.value), raised.value.hint, repr(world.forge)]
    assert fake.token not in "\n".join(seen)

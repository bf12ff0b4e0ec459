"""A folder as a forge, used by several processes and by people with editors at the same time."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from kakite.agent.forges.base import Forge, ForgeError
from kakite.agent.forges.issue_snapshot import IssueSnapshot, find_updates, take_snapshot
from kakite.agent.forges.labels import LabelConfig, format_handled_ids, parse_marker
from kakite.agent.forges.local import files as folder_module
from kakite.agent.forges.local.document import (
    IssueDocument,
    collect_own_texts,
    get_settings,
    parse_document,
    with_comment,
    with_value,
)
from kakite.agent.forges.local.files import MAX_BYTES, ForgeFolder
from kakite.agent.forges.local.forge import LocalForge
from tests.bounds import WITHIN
from tests.racing import swapping
from tests.repositories import git, make_remote

pytestmark = pytest.mark.anyio

NAMES = LabelConfig()
ISSUE = "---\ntitle: Fix it\nlabels: [kakite, bug]  # as agreed\nauthor: anna\n---\n\nIt is broken.\n"
OLD = 1_700_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_remote(tmp_path, {"a.py": "print(1)\n"}, "repo.git")
    (tmp_path / "issues").mkdir()
    return tmp_path


@pytest.fixture
def reports() -> list[ForgeError]:
    return []


@pytest.fixture
def forge(place: Path, reports: list[ForgeError]) -> LocalForge:
    return LocalForge(place, report=reports.append)


def write(place: Path, path: str, text: str | bytes) -> Path:
    """Write a file as it would lie there for long."""
    file = place / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(file, (OLD, OLD))
    return file


async def refused(code: str, asked: object) -> ForgeError:
    with pytest.raises(ForgeError) as caught:
        await asked  # pyright: ignore[reportGeneralTypeIssues] - a coroutine
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


def test_it_is_a_forge(forge: LocalForge) -> None:
    context: Forge = forge
    assert context.name == "local"


async def test_an_issue_goes_its_way_through_labels_comments_and_a_pull_request(
    place: Path, forge: LocalForge
) -> None:
    file = write(place, "issues/007-fix.md", ISSUE)
    await forge.check()
    (trigger,) = await forge.find_triggers(NAMES)
    assert (trigger.number, trigger.kind, trigger.actor) == (7, "label", "anna")
    snapshot = take_snapshot(await forge.get_issue(7), trigger)
    assert isinstance(snapshot, IssueSnapshot)
    assert (snapshot.title, snapshot.text) == ("Fix it", "It is broken.")

    await forge.set_state_label(7, "processing", NAMES)
    assert await forge.find_triggers(NAMES) == []
    assert file.read_text("utf-8") == ISSUE.replace("kakite,", "kakite:processing,")

    address = await forge.put_comment(7, "progress", "At work.")
    assert address == str(file)
    request = await forge.put_pull_request(
        issue=7, branch="kakite/7", base="main", title="Fix: it", text="Fixes it.", draft=True
    )
    assert (request.number, request.state, request.draft, request.title) == (1, "open", True, "Fix: it")
    again = await forge.put_pull_request(
        issue=7, branch="kakite/7", base="main", title="Fix it", text="Fixed.\n", draft=False
    )
    assert (again.number, again.draft, again.title, again.text) == (1, False, "Fix it", "Fixed.")
    assert await forge.list_pull_requests("kakite/7") == [again]
    assert await forge.list_pull_requests("other") == []
    assert await forge.get_pull_request(1) == again
    await forge.set_state_label(7, "done", NAMES)
    assert await forge.find_triggers(NAMES) == []

    told = b"\n## comment by anna, 2026-11-22\n\nNo tests?\n"
    write(place, "pulls/001.md", (place / "pulls/001.md").read_bytes() + told)
    (review,) = await forge.find_triggers(NAMES)
    assert (review.kind, review.number, review.request, review.actor) == ("review", 7, 1, "anna")
    (remark,) = await forge.list_review_comments(1)
    assert (remark.id, remark.text, remark.trusted) == (review.comment, "No tests?", True)
    await forge.put_pull_request_comment(1, "answer", f"Added.\n{format_handled_ids([remark.id])}")
    assert await forge.find_triggers(NAMES) == []
    assert list(await forge.list_review_comments(1)) == [replace(remark, answered=True)]


async def test_a_pull_request_is_the_open_one_of_its_branch_or_the_next_number(
    forge: LocalForge, place: Path
) -> None:
    async def put(branch: str) -> int:
        request = await forge.put_pull_request(
            issue=1, branch=branch, base="main", title="t", text="x", draft=False
        )
        return request.number

    await forge.check()
    assert [await put("a"), await put("b"), await put("a")] == [1, 2, 1]
    text = (place / "pulls/001.md").read_text("utf-8")
    write(place, "pulls/001.md", text.replace("state: open", "state: merged"))
    write(place, "pulls/009-by-hand.md", "---\nissue: 1\nbranch: c\nbase: main\nstate: closed\n---\n")
    assert [await put("a"), await put("c"), await put("b")] == [10, 11, 2]
    assert [request.number for request in await forge.list_pull_requests("a")] == [10, 1]
    assert text.startswith("---\nissue: 1\nbranch: a\nbase: main\n")


async def test_a_mention_wakes_until_a_comment_of_ours_takes_it_up(forge: LocalForge, place: Path) -> None:
    closed = ISSUE.replace("[kakite, bug]", "[]")
    write(place, "issues/1.md", f"{closed}\n## comment by bob, 2026-11-22 10:00Z\n\n@kakite please\n")
    (trigger,) = await forge.find_triggers(NAMES)
    assert (trigger.kind, trigger.actor) == ("mention", "bob")
    assert trigger.comment is not None
    await forge.put_comment(1, "progress", format_handled_ids([trigger.comment]))
    assert await forge.find_triggers(NAMES) == []


async def test_new_comments_reach_the_running_task(forge: LocalForge, place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    (trigger,) = await forge.find_triggers(NAMES)
    snapshot = take_snapshot(await forge.get_issue(1), trigger)
    assert isinstance(snapshot, IssueSnapshot)
    await forge.set_state_label(1, "processing", NAMES)
    await forge.put_comment(1, "progress", "At work.")
    fresh, seen = find_updates(await forge.get_issue(1), snapshot.at, snapshot.seen)
    assert fresh == ()
    with file.open("a", encoding="utf-8") as opened:
        opened.write("typed at the end\n\n## comment by bob\n\nand signed\n")
    await forge.put_comment(1, "progress", "Still at work.")
    fresh, seen = find_updates(await forge.get_issue(1), snapshot.at, seen)
    assert [(each.author, each.text) for each in fresh] == [
        ("unknown", "typed at the end"),
        ("bob", "and signed"),
    ]
    assert find_updates(await forge.get_issue(1), snapshot.at, seen)[0] == ()


async def test_the_oldest_waits_first_and_an_issue_only_once(forge: LocalForge, place: Path) -> None:
    for number, age in ((1, 5), (2, 9), (3, 7)):
        file = write(place, f"issues/{number}.md", f"{ISSUE}\n@kakite\n")
        os.utime(file, (OLD - age, OLD - age))
    write(place, "pulls/1.md", "---\nissue: 1\nbranch: b\nbase: main\n---\n## comment by bob\n\nno\n")
    assert [each.number for each in await forge.find_triggers(NAMES)] == [2, 3, 1]


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("issues/1.md", "no settings\n", "issues/1.md:1"),
        ("issues/1.md", "---\ntitle: a: b\n---\n", "issues/1.md:2"),
        ("issues/1.md", "---\nlabels: [kakite]\n---\n", "issues/1.md:1"),
        ("issues/1.md", "---\ntitle: a\n\nstate: opne\n---\n", "issues/1.md:4"),
        ("issues/1.md", b"---\ntitle: a\n---\n\n\xff\n", "issues/1.md:5"),
        ("pulls/1.md", "---\nissue: 2\nbase: main\n---\n", "pulls/1.md:1"),
        ("pulls/1.md", "---\nbranch: b\nbase: main\nissue: two\n---\n", "pulls/1.md:4"),
        ("pulls/1.md", "---\nissue: 9\nbranch: b\nbase: m\n---\n## comment by a\n\nx", "pulls/1.md:2"),
        ("issues/0002-again.md", ISSUE, "issues/0002-again.md"),
        ("issues/1.md", f"{ISSUE}{'x' * MAX_BYTES}", "issues/1.md"),
    ],
)
async def test_a_broken_file_is_told_once_with_its_line_while_others_go_on(
    forge: LocalForge, place: Path, reports: list[ForgeError], path: str, text: str | bytes, told: str
) -> None:
    write(place, "issues/3.md", ISSUE)
    if "again" in path:
        write(place, "issues/2.md", ISSUE)
    file = write(place, path, text)
    for _ in range(3):
        assert [each.number for each in await forge.find_triggers(NAMES)] == [3]
    (report,) = reports
    assert report.code == "forge_bad_reply"
    assert f"`{told}`" in report.message
    assert report.hint
    file.unlink()
    await forge.find_triggers(NAMES)
    write(place, path, text)
    await forge.find_triggers(NAMES)
    assert len(reports) == 2


async def test_what_is_not_there_is_told(forge: LocalForge, place: Path) -> None:
    await forge.check()
    write(place, "issues/2.md", "no settings")
    await refused("forge_not_found", forge.get_issue(1))
    await refused("forge_not_found", forge.get_pull_request(1))
    await refused("forge_not_found", forge.set_state_label(1, "done", NAMES))
    await refused("forge_not_found", forge.put_comment(1, "a", "b"))
    await refused("forge_bad_reply", forge.get_issue(2))
    await refused("forge_bad_reply", forge.put_comment(2, "a", "b"))
    alias = "---\ntitle: a\nx: &a [kakite]\nlabels: *a\n---\n"
    file = write(place, "issues/3.md", alias)
    assert (
        "issues/3.md:4" in (await refused("forge_bad_reply", forge.set_state_label(3, "done", NAMES))).message
    )
    assert file.read_text("utf-8") == alias


async def test_editors_leave_other_files_which_are_none_of_ours(
    forge: LocalForge, place: Path, reports: list[ForgeError]
) -> None:
    for name in ("1.md~", ".1.md.swp", "#1.md#", "4913", "README.md", "1.txt", ".1.md.kakite"):
        write(place, f"issues/{name}", "x")
    (place / "issues" / ".#1.md").symlink_to("anna@host.1234")
    write(place, "issues/1-a.md", ISSUE)
    assert [each.number for each in await forge.find_triggers(NAMES)] == [1]
    assert reports == []


async def test_no_link_is_followed(
    forge: LocalForge, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    secret = write(outside, "1.md", ISSUE)
    (place / "issues" / "1.md").symlink_to(secret)
    (place / "pulls").symlink_to(outside)
    await refused("forge_forbidden", forge.check())
    await refused("forge_forbidden", forge.get_issue(1))
    await refused("forge_forbidden", forge.put_comment(1, "a", "b"))
    await refused("forge_forbidden", forge.set_state_label(1, "done", NAMES))
    await refused(
        "forge_forbidden",
        forge.put_pull_request(issue=1, branch="b", base="main", title="t", text="x", draft=False),
    )
    await refused("forge_forbidden", forge.get_pull_request(1))
    assert secret.read_text("utf-8") == ISSUE
    assert list(outside.iterdir()) == [secret]


async def test_a_repository_that_is_a_link_or_none_is_told_with_what_to_do(
    place: Path, tmp_path: Path
) -> None:
    forge = LocalForge(place)
    (place / "repo.git").rename(place / "elsewhere.git")
    assert "git clone --bare" in (await refused("forge_not_found", forge.check())).hint
    (place / "repo.git").symlink_to(place / "elsewhere.git")
    await refused("forge_not_found", forge.check())
    (place / "repo.git").unlink()
    (place / "repo.git").mkdir()
    await refused("forge_not_found", forge.check())
    git(place / "repo.git", "init", "--quiet")  # with a work tree: nobody can push to its branch
    await refused("forge_not_found", forge.check())
    assert not (place / "pulls").exists()


async def test_the_default_branch_is_one_that_is_there(place: Path) -> None:
    forge = LocalForge(place)
    bare = place / "repo.git"
    found = await forge.get_repository()
    assert (found.address, found.default_branch, found.credentials) == (str(bare), "main", None)
    git(bare, "symbolic-ref", "HEAD", "refs/heads/master")
    assert (await forge.get_repository()).default_branch == "main"
    git(bare, "branch", "other", "main")
    assert "symbolic-ref" in (await refused("forge_rejected", forge.get_repository())).hint
    git(bare, "update-ref", "-d", "refs/heads/main")
    git(bare, "update-ref", "-d", "refs/heads/other")
    await refused("forge_rejected", forge.get_repository())


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ForgeError) as caught:
        LocalForge(tmp_path / "missing")
    assert caught.value.code == "forge_not_found"
    assert caught.value.hint


async def test_a_comment_that_would_break_the_file_is_refused(forge: LocalForge, place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    await refused("forge_rejected", forge.put_comment(1, "a", "x" * MAX_BYTES))
    assert file.read_text("utf-8") == ISSUE
    await forge.put_comment(1, "a", "half a character \ud83d")
    assert "half a character ?" in file.read_text("utf-8")


async def test_a_file_keeps_its_mode_and_is_always_whole(forge: LocalForge, place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    file.chmod(0o640)
    await forge.put_comment(1, "a", "b")
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in (place / "issues").iterdir()] == ["1.md"]


def with_progress(page: IssueDocument) -> IssueDocument:
    return with_comment(page, "progress", "text", author="kakite", at=datetime(2026, 11, 22, tzinfo=UTC))


def with_round(number: int, page: IssueDocument) -> IssueDocument:
    return with_value(page, "round", str(number))


def test_what_somebody_saves_at_the_very_moment_of_a_change_is_kept(place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    saves = iter([b"one\n", b"two\n", b"three\n"])

    def edit(page: IssueDocument) -> IssueDocument:
        if said := next(saves, None):
            file.write_bytes(file.read_bytes() + said)
        return with_progress(page)

    ForgeFolder(place).change("issues", 1, edit)
    text = file.read_text("utf-8")
    assert text.startswith(f"{ISSUE}one\ntwo\nthree\n")
    assert len(collect_own_texts(parse_document(text.encode()))) == 1


def test_a_file_that_is_saved_all_the_time_is_given_up_and_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(place, "issues/1.md", ISSUE)
    monkeypatch.setattr(folder_module, "SETTLE_TIME", 0.01)

    def edit(page: IssueDocument) -> IssueDocument:
        file.write_bytes(file.read_bytes() + b"x\n")
        return with_progress(page)

    with pytest.raises(ForgeError) as caught:
        ForgeFolder(place).change("issues", 1, edit)
    assert caught.value.code == "forge_conflict"
    assert caught.value.retryable
    assert "kakite:" not in file.read_text("utf-8")


async def test_what_an_editor_writes_piece_by_piece_is_read_when_it_is_whole(
    forge: LocalForge, place: Path, reports: list[ForgeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = place / "issues" / "1.md"
    half = place / "issues" / "2.md"
    broken.write_text("---\ntitle: x", encoding="utf-8")
    half.write_text("---\ntitle: x\nlabels: [kakite]\n---\nNever", encoding="utf-8")

    def settled(_: float) -> None:
        write(place, "issues/1.md", ISSUE)
        write(place, "issues/2.md", "---\ntitle: x\nlabels: []\n---\nNever mind")

    monkeypatch.setattr(folder_module.time, "sleep", settled)
    assert [each.number for each in await forge.find_triggers(NAMES)] == [1]
    assert reports == []


async def test_nothing_is_put_into_a_file_that_somebody_is_writing(
    forge: LocalForge, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = ISSUE.encode()
    file = place / "issues" / "1.md"
    with file.open("wb", buffering=0) as editor:
        editor.write(begun)

        def write_on(_: float) -> None:
            editor.write(b"and the rest\n")
            os.utime(file, (OLD, OLD))

        monkeypatch.setattr(folder_module.time, "sleep", write_on)
        await forge.put_comment(1, "progress", "x")
        monkeypatch.undo()
        await forge.put_comment(1, "progress", "y")  # right away: the last who wrote it were we
    assert file.read_bytes().startswith(begun + b"and the rest\n\n## comment by kakite")
    assert (await forge.get_issue(1)).text.endswith("and the rest")


async def test_a_folder_that_was_removed_is_told(forge: LocalForge, place: Path) -> None:
    await forge.check()
    shutil.rmtree(place)
    await refused("forge_not_found", forge.find_triggers(NAMES))
    await refused("forge_not_found", forge.get_issue(1))


async def test_an_editor_that_takes_the_file_away_to_save_it_is_waited_for(
    forge: LocalForge, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_back(_: float) -> None:
        write(place, "issues/1.md", ISSUE)

    monkeypatch.setattr(folder_module.time, "sleep", put_back)
    await forge.set_state_label(1, "processing", NAMES)
    assert (await forge.get_issue(1)).labels == {"kakite:processing", "bug"}


async def test_a_file_that_changes_while_its_time_does_not_is_read_again(
    forge: LocalForge, place: Path
) -> None:
    file = place / "issues" / "1.md"
    now = time.time()
    for title in ("aaa", "bbb"):
        file.write_text(f"---\ntitle: {title}\n---\n", encoding="utf-8")
        os.utime(file, (now, now))
        assert (await forge.get_issue(1)).title == title


async def test_a_renamed_file_is_found_by_its_number(forge: LocalForge, place: Path) -> None:
    file = write(place, "issues/1-old.md", ISSUE)
    await forge.set_state_label(1, "processing", NAMES)
    file.rename(place / "issues" / "001-new-name.md")
    await forge.put_comment(1, "progress", "x")
    assert (await forge.get_issue(1)).address.endswith("001-new-name.md")


WRITER = """
import asyncio, sys
from pathlib import Path
from kakite.agent.forges.local.forge import LocalForge
from kakite.agent.forges.labels import LabelConfig
async def main(place, who, count):
    forge = LocalForge(Path(place))
    async def put(branch):
        await forge.put_pull_request(issue=1, branch=branch, base="main", title="t", text="x", draft=True)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        await put(f"shared/{number}")
        await put(f"{who}/{number}")
        await forge.put_comment(1, f"{who}-{number}", "first")
        await forge.put_comment(1, f"{who}-{number}", f"said by {who}")
        await forge.set_state_label(1, "processing" if number % 2 else "paused", LabelConfig())
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing_and_make_nothing_twice(place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    ForgeFolder(place).create_folder("pulls")
    count = 4
    command = [sys.executable, "-c", WRITER, str(place)]
    with ExitStack() as running:
        writers = [
            running.enter_context(
                subprocess.Popen([*command, who, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for who in "abc"
        ]
        assert [writer.stdout and writer.stdout.readline() for writer in writers] == [b"ready\n"] * 3
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()  # go
        assert [writer.wait(timeout=WITHIN) for writer in writers] == [0, 0, 0]
    texts = collect_own_texts(parse_document(file.read_bytes()))
    assert {parse_marker(text): text.split("\n")[1] for text in texts} == {
        f"{who}-{number}": f"said by {who}" for who in "abc" for number in range(count)
    }
    assert len(texts) == 3 * count
    assert file.read_text("utf-8").startswith(ISSUE.replace("kakite,", "kakite:processing,"))
    requests = [
        get_settings(parse_document(each.read_bytes()))["branch"] for each in (place / "pulls").iterdir()
    ]
    assert sorted(map(str, requests)) == sorted(
        f"{who}/{number}" for who in ("a", "b", "c", "shared") for number in range(count)
    )


# Saves like an editor that looks whether the file is what it has loaded, again soon after we have written:
# nobody saves twice in the moment between our write and our look at what it has replaced.
PERSON = """
import os, pathlib, sys, time
file = pathlib.Path(sys.argv[1])
loaded = b""
for number in range(8):
    while True:
        before = file.read_bytes()
        if before == loaded:
            time.sleep(0.001)
            continue
        time.sleep(0.02)
        if file.read_bytes() != before:
            continue
        fresh = file.with_name(".person")
        loaded = before + f"\\n## comment by person\\n\\nline {number}.\\n".encode()
        fresh.write_bytes(loaded)
        if file.read_bytes() == before:
            os.replace(fresh, file)
            break
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # each of our writes waits for the disk, which others may keep busy
def test_a_person_who_saves_while_we_write_loses_no_line(place: Path) -> None:
    file = write(place, "issues/1.md", ISSUE)
    folder = ForgeFolder(place)
    number = 0
    with subprocess.Popen([sys.executable, "-c", PERSON, str(file)]) as editor:
        late = time.monotonic() + 400
        while editor.poll() is None and time.monotonic() < late:
            number += 1
            folder.change("issues", 1, partial(with_round, number))
            with contextlib.suppress(subprocess.TimeoutExpired):  # a pause, in which a person can save at all
                editor.wait(number % 5 * 0.03)
        editor.kill()
    assert editor.returncode == 0
    text = file.read_text("utf-8")
    assert [text.count(f"line {each}.") for each in range(8)] == [1] * 8


@pytest.mark.slow
def test_no_swap_of_folders_and_links_leads_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root, outside):
        each.mkdir()
    write(outside, "1.md", ISSUE)
    for name, target in (("d", None), ("p", None), ("new", None), ("to-outside", outside)):
        if target is None:
            (root / name).mkdir()
        else:
            (root / name).symlink_to(target)
    write(root, "d/1.md", ISSUE)
    (root / "p" / "q").mkdir()
    (root / "to-sub").symlink_to("d")
    write(root, "new/x", "x")
    write(root, "f", "f")
    (root / "to-file").symlink_to(outside / "1.md")
    (root / "issues").symlink_to("d")
    folder = ForgeFolder(root)
    codes = {"forge_forbidden"}
    with swapping(root):
        for number in range(150):
            try:
                folder.change("issues", 1, partial(with_round, number))
            except ForgeError as error:
                codes.add(error.code)
    assert codes <= {"forge_forbidden", "forge_not_found", "forge_conflict"}
    assert (outside / "1.md").read_text("utf-8") == ISSUE
    assert sorted(each.name for each in outside.iterdir()) == ["1.md"]

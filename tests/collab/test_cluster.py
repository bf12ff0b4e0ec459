"""Two processes that serve the same pages through a real Redis; one is killed while people type."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from mcp import Client

from kakite.collab.file_sync import FileText
from tests.bounds import WITHIN
from tests.collab.model import block, speaking
from tests.collab.redis import needs_redis, redis
from tests.collab.server import Tab, on_disk, serving
from tests.collab.test_assist import asked
from tests.collab.test_mcp import agent, call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    needs_redis,
    pytest.mark.timeout(600),
]


async def test_people_and_cursors_of_two_processes_meet(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes("題\r\n".encode())
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
        Tab(one.url, "a.md", "Ann") as ann,
        Tab(two.url, "a.md", "Ben") as ben,
    ):
        assert str(ann) == str(ben) == "題\n"
        ann.insert(2, "👍 Ann\n")
        ben.insert(0, "Ben ")
        await ann.until(lambda: str(ann) == "Ben 題\n👍 Ann\n")
        await ben.until(lambda: str(ben) == str(ann))
        await ann.until(lambda: "Ben" in ann.names())
        await ben.until(lambda: "Ann" in ben.names())
        await on_disk(file, "Ben 題\r\n👍 Ann\r\n".encode())
        for server in (one, two):
            async with server.client() as http:
                assert (await http.get("/api/pages/a.md")).json()["line_end"] == "\r\n"
        await ben.until(lambda: ben.state["file"] == {"saved": True, "problem": None})
        async with Tab(two.url, "a.md", "late") as late:
            await late.until(lambda: late.names() >= {"Ann", "Ben"})
        await ann.until(lambda: "late" not in ann.names())


async def test_suggestions_and_runs_are_the_same_whichever_process_is_asked(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\ntwo\n")
    async with speaking() as model, redis(tmp_path) as own:
        model.pieces = [*block("one", "1"), *block("two", "2")]
        options = ("--redis", own.url, *model.options)
        async with (
            serving(pages, *options, environ=model.environ) as one,
            serving(pages, *options, environ=model.environ) as two,
            Tab(one.url, "a.md", "Ann") as ann,
            Tab(two.url, "a.md", "Ben") as ben,
            two.client() as http,
            one.client() as owners,
        ):
            told = await asked(http, "a.md", message="x")
            assert told[-1][2]["counts"] == {"edits": 2, "failures": 0}
            await ben.until(lambda: len(ben.state["suggestions"]) == 2)
            first, second = (each["id"] for each in ben.state["suggestions"])
            base = "/api/pages/a.md/suggestions"
            assert (await http.post(f"{base}/{first}/accept")).status_code == 200
            assert (await owners.post(f"{base}/{first}/accept")).status_code == 409
            assert (await owners.post(f"{base}/{second}/reject")).status_code == 200
            assert (await http.post(f"{base}/{second}/reject")).status_code == 409
            assert (await http.post("/api/pages/none.md/suggestions/accept")).status_code == 404
            await ann.until(lambda: str(ann) == "1\ntwo\n")
            await ben.until(lambda: str(ben) == str(ann) and not ben.state["suggestions"])
            run = told[0][2]["id"]
            assert (await http.post(f"/api/runs/{run}/revert")).json()["run"]["reverted"] is True
            await ben.until(lambda: str(ben) == "one\ntwo\n")
            await on_disk(file, b"one\ntwo\n")


async def test_when_a_pages_owner_is_killed_its_suggestions_and_file_go_on(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\ntwo\n")
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
        Tab(one.url, "a.md", "Ann") as ann,
        Tab(two.url, "a.md", "Ben") as ben,
    ):
        async with agent(one) as client:
            await suggested(client)
        await ben.until(lambda: len(ben.state["suggestions"]) == 1)
        ann.insert(0, "last words ")
        await ben.until(lambda: str(ben).startswith("last words "))
        await one.end(signal.SIGKILL)
        await ann.leave()
        ben.insert(len(str(ben)), "ben\n")
        await on_disk(file, b"last words one\ntwo\nben\n")
        await ben.until(lambda: "Ann" not in ben.names())
        async with two.client() as http:
            assert (await http.post("/api/pages/a.md/suggestions/accept")).json()["accepted"]
        await ben.until(lambda: str(ben) == "last words one\n2\nben\n")
        ann.url = ben.url
        await ann.join()
        await ann.until(lambda: str(ann) == str(ben))


async def test_who_is_asked_in_somebodys_name_asks_what_they_may(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("a.md", "secret.md"):
        (pages / name).write_bytes(b"one\n")
    settings = tmp_path / "settings.yaml"
    told = {
        "collab_proxy_header": "X-User",
        "collab_proxy_addresses": ["127.0.0.1"],
        "collab_people": {"ann": {"a.md": "write"}},
    }
    settings.write_text(yaml.safe_dump(told), encoding="utf-8")
    async with speaking() as model, redis(tmp_path) as own:
        environ = {**model.environ, "KAKITE_CONFIG": str(settings)}
        options = ("--redis", own.url, *model.options)
        async with (
            serving(pages, *options, environ=environ) as one,
            serving(pages, *options, environ=environ) as two,
            Tab(one.url, "a.md"),
            httpx.AsyncClient(base_url=two.url) as ann,
        ):
            ann.headers.update({"X-User": "ann", "Origin": two.url.rstrip("/")})
            place = "/api/pages/a.md/assist"
            refused = await ann.post(place, json={"message": "x", "pages": ["secret.md"]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_such_page")
            assert (await ann.get("/api/pages/secret.md/suggestions")).status_code == 404
            assert "done" in (await ann.post(place, json={"message": "x"})).text


async def test_an_agent_edits_any_page_through_any_process(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_bytes(b"one\ntwo\n")
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
        Tab(one.url, "a.md", "Ann") as ann,
        agent(two) as client,
    ):
        await suggested(client)
        await ann.until(lambda: [each["replace"] for each in ann.state["suggestions"]] == ["2"])
        listed = await client.call_tool("page_suggestions", {"path": "a.md"})
        assert "by MCP" in str(listed.content)
        told, failed = await call(client, "str_replace", "a.md", old_str="nine", new_str="9")
        assert failed
        assert "not_found" in told
        await one.end(signal.SIGKILL)
        told, failed = await call(client, "str_replace", "a.md", old_str="one", new_str="1")
        assert failed
        assert "owner_gone" in told
        async with Tab(two.url, "a.md", "Ben") as ben:
            await on_disk_owned(ben)
            _, failed = await call(client, "str_replace", "a.md", old_str="one", new_str="1")
            assert not failed
            await ben.until(lambda: len(ben.state["suggestions"]) == 2)


async def on_disk_owned(tab: Tab) -> None:
    """Wait until a page has an owner that writes its file."""
    tab.insert(len(str(tab)), "x\n")
    await tab.until(lambda: not tab.state["file"]["saved"])
    await tab.until(lambda: tab.state["file"]["saved"])


async def test_a_run_over_pages_of_several_processes_edits_all_of_them(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("a.md", "b.md"):
        (pages / name).write_bytes(b"one\ntwo\n")
    async with speaking() as model, redis(tmp_path) as own:
        options = ("--redis", own.url, *model.options)
        async with (
            serving(pages, *options, environ=model.environ) as one,
            serving(pages, *options, environ=model.environ) as two,
            Tab(one.url, "a.md") as ann,
            Tab(two.url, "b.md") as ben,
            agent(two) as client,
            one.client() as http,
            two.client() as others,
        ):
            await call(client, "str_replace", "b.md", old_str="two", new_str="2")
            await ben.until(lambda: len(ben.state["suggestions"]) == 1)
            ben.insert(8, "Ben\n")
            model.pieces = [f"{name}\n{''.join(block('one', '1'))}" for name in ("a.md", "b.md")]
            told = await asked(http, "a.md", message="x", pages=["b.md"])
            assert told[-1][2]["counts"] == {"edits": 2, "failures": 0}, told
            await ann.until(lambda: len(ann.state["suggestions"]) == 1)
            await ben.until(lambda: len(ben.state["suggestions"]) == 2)
            accepted = await others.post("/api/pages/b.md/suggestions/accept")
            assert len(accepted.json()["accepted"]) == 2
            await ben.until(lambda: str(ben) == "1\n2\nBen\n")
            await on_disk(pages / "b.md", b"1\n2\nBen\n")


async def suggested(client: Client) -> None:
    _, failed = await call(client, "str_replace", "a.md", old_str="two", new_str="2")
    assert not failed


@pytest.mark.parametrize("seed", range(3))
async def test_killed_in_mid_typing_nothing_is_lost(tmp_path: Path, seed: int, proof: bool) -> None:
    dice = random.Random(seed)
    pages = tmp_path / "pages"
    pages.mkdir()
    names = ["a.md", "b.md"]
    for name in names:
        (pages / name).write_bytes("始め\r\n".encode())
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
    ):
        tabs = [Tab(server.url, name, f"{at}") for name in names for at, server in enumerate((one, two))]
        for tab in dice.sample(tabs, len(tabs)):
            await tab.join()
        marks: dict[str, list[str]] = {name: [] for name in names}
        steps = 200 if proof else 60
        killed = dice.randrange(steps // 3, 2 * steps // 3)
        for step in range(steps):
            tab = dice.choice(tabs)
            mark = f"<{step}日👍>"
            marks[tab.page].append(mark)
            tab.insert(dice.randint(0, len(str(tab))), mark)
            if step == killed:
                await one.end(signal.SIGKILL)
            if step % 3 == 0:
                await asyncio.sleep(0)
        for tab in tabs:
            await tab.leave()
            tab.url = Tab(two.url, tab.page).url
            await tab.join()
        for name in names:
            await agree([tab for tab in tabs if tab.page == name], pages / name, marks[name])
        for tab in tabs:
            await tab.leave()


async def agree(tabs: list[Tab], page: Path, marks: list[str]) -> None:
    for tab in tabs:
        await tab.until(lambda tab=tab: all(str(tab) == str(each) for each in tabs))
    text = str(tabs[0])
    assert sorted(text) == sorted("".join([*marks, "始め\n"])), "something is lost or doubled"
    async with asyncio.timeout(WITHIN):
        while FileText.from_bytes(page.read_bytes()).text != text:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.05)


async def test_a_redis_that_is_not_there_is_told(tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kakite", "collab", str(tmp_path), "--http", "127.0.0.1:0"),
        *("--redis", "redis://127.0.0.1:1/0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(WITHIN):
        _, told = await program.communicate()
    assert program.returncode == 3
    assert b"relay_failed" in told

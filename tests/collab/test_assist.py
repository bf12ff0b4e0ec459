"""The assistant over HTTP: events, going on after a lost connection, review and auto, revert and keep."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bounds import WITHIN
from tests.collab.model import block, speaking
from tests.collab.server import Tab, on_disk, serving

pytestmark = pytest.mark.anyio

Told = tuple[str, str, dict[str, Any]]
"""A server-sent event: its id, name and data."""


async def events(answer: httpx.Response) -> AsyncGenerator[Told]:
    assert answer.status_code == 200, await answer.aread()
    assert answer.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
            fields = {}


async def asked(http: httpx.AsyncClient, page: str, **wish: Any) -> list[Told]:
    async with http.stream("POST", f"/api/pages/{page}/assist", json=wish) as answer:
        return [told async for told in events(answer)]


@pytest.mark.slow
async def test_a_reply_is_told_as_it_comes_and_its_edits_are_suggestions(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("# 題\r\n\r\n本文です。\r\n".encode())
    async with speaking() as model:
        edits = (*block("本文です。", "よい本文です。"), *block("not there", "x"))
        model.pieces = ["I ", "will.\n", *edits, "Done."]
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            Tab(server.url, "a.md") as ann,
            server.client() as http,
        ):
            told = await asked(http, "a.md", message="直して", selection={"start": 5, "end": 7})
            ids, names = [each[0] for each in told], [each[1] for each in told]
            run = told[0][2]["id"]
            assert ids == [f"{run}-{number + 1}" for number in range(len(told))]
            assert (names[0], names[-1]) == ("run", "done")
            assert "".join(each[2]["text"] for each in told if each[1] == "message").startswith("I will.")
            (edit,) = (each[2] for each in told if each[1] == "edit")
            (failure,) = (each[2] for each in told if each[1] == "failure")
            assert (edit["index"], edit["page"], edit["suggestion"]["search"]) == (0, "a.md", "本文です。\n")
            assert (failure["index"], failure["code"]) == (1, "not_found")
            assert told[-1][2]["counts"] == {"edits": 1, "failures": 1}
            assert told[-1][2]["status"] == "done"
            assert "直して" in json.dumps(model.requests, ensure_ascii=False)
            await ann.until(lambda: [each["status"] for each in ann.state["runs"]] == ["done"])
            assert str(ann) == "# 題\n\n本文です。\n"
            await http.post("/api/pages/a.md/suggestions/accept")
            await on_disk(tmp_path / "a.md", "# 題\r\n\r\nよい本文です。\r\n".encode(), 2)


@pytest.mark.slow
async def test_who_lost_the_connection_hears_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\ntwo\n")
    async with speaking() as model:
        model.pieces = ["First. ", *block("one", "1"), "Then. ", *block("two", "2")]
        model.held_from = len(model.pieces) - 10
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            server.client() as http,
        ):
            first: list[Told] = []
            async with (
                http.stream("POST", "/api/pages/a.md/assist", json={"message": "x"}) as answer,
                aclosing(events(answer)) as heard,
            ):
                async for told in heard:
                    first.append(told)
                    if told[1] == "edit":
                        break
            run = first[0][2]["id"]
            model.free.set()
            headers = {"Last-Event-ID": first[-1][0]}
            async with http.stream("GET", f"/api/runs/{run}/events", headers=headers) as answer:
                rest = [told async for told in events(answer)]
            whole = first + rest
            assert [each[0] for each in whole] == [f"{run}-{number + 1}" for number in range(len(whole))]
            assert [each[2]["index"] for each in whole if each[1] == "edit"] == [0, 1]
            assert whole[-1][1] == "done"


@pytest.mark.slow
async def test_a_run_that_nobody_listens_to_any_more_is_cancelled(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\n")
    async with speaking() as model:
        model.pieces, model.held_from = ["a", "b"], 1
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            Tab(server.url, "a.md") as ann,
            server.client() as http,
        ):
            async with http.stream("POST", "/api/pages/a.md/assist", json={"message": "x"}) as answer:
                await anext(aiter(events(answer)))
            async with asyncio.timeout(WITHIN):
                await model.left.wait()
            await ann.until(lambda: [each["status"] for each in ann.state["runs"]] == ["cancelled"])


@pytest.mark.slow
async def test_in_auto_mode_a_run_is_in_the_text_and_can_be_reverted_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes("一\n二\n三\n".encode())
    async with speaking() as model:
        model.pieces = [*block("一", "壱"), *block("三", "参")]
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            Tab(server.url, "a.md") as ann,
            server.client() as http,
        ):
            told = await asked(http, "a.md", message="x", mode="auto")
            run = told[0][2]["id"]
            await ann.until(lambda: str(ann) == "壱\n二\n参\n")
            await ann.until(lambda: "Assistant" not in ann.names())
            ann.insert(3, "人")
            await ann.settle()
            reverted = await http.post(f"/api/runs/{run}/revert")
            assert reverted.json()["run"]["reverted"] is True
            await ann.until(lambda: str(ann) == "一\n二人\n三\n")
            again = await http.post(f"/api/runs/{run}/revert")
            assert (again.status_code, again.json()["error"]["code"]) == (409, "not_revertable")
            assert (await http.post("/api/runs/none/keep")).status_code == 404
            await on_disk(file, "一\n二人\n三\n".encode(), 3)


@pytest.mark.slow
async def test_the_assistant_has_a_caret_like_a_person(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("一\n二\n".encode())
    async with speaking() as model:
        model.pieces = [block("二", "弐"), "and", " so on"]
        model.held_from = 2
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            Tab(server.url, "a.md") as ann,
            server.client() as http,
        ):
            asking = asyncio.create_task(asked(http, "a.md", message="x"))
            await ann.until(lambda: "Assistant" in ann.names())
            model.free.set()
            await asking
            await ann.until(lambda: "Assistant" not in ann.names())


@pytest.mark.slow
async def test_the_model_is_asked_with_the_effort_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\n")
    async with speaking() as model:
        said = {"KAKITE_MODEL": "openai:gpt-5", "KAKITE_BASE_URL": f"{model.url}/v1", "KAKITE_EFFORT": "low"}
        async with serving(tmp_path, environ={**model.environ, **said}) as server, server.client() as http:
            await asked(http, "a.md", message="x")
    assert [each["reasoning_effort"] for each in model.requests] == ["low"]


@pytest.mark.slow
async def test_what_cannot_be_asked_is_told_before_anything_streams(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\n")
    async with serving(tmp_path) as server, server.client() as http:
        for page, wish, status, code in (
            ("a.md", {"message": "x"}, 503, "no_model"),
            ("a.md", {"message": ""}, 422, "bad_request"),
            ("none.md", {"message": "x"}, 404, "no_such_page"),
            ("a.md", {"message": "x", "pages": ["none.md"]}, 404, "no_such_page"),
        ):
            answer = await http.post(f"/api/pages/{page}/assist", json=wish)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert (await http.get("/api/runs/none/events")).status_code == 404

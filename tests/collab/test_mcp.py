"""Another agent, over MCP, on pages that people have open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.bounds import WITHIN
from tests.collab.server import TOKEN, Server, Tab, on_disk, serving

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def agent(server: Server, token: str = TOKEN) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WITHIN) as http,
        Client(streamable_http_client(f"{server.url}mcp", http_client=http)) as client,
    ):
        yield client


async def call(client: Client, command: str, path: str, **more: Any) -> tuple[str, bool]:
    answer = await client.call_tool("text_editor", {"command": command, "path": path, **more})
    (content,) = answer.content
    assert content.type == "text"
    return content.text, bool(answer.is_error)


@pytest.mark.slow
async def test_an_agents_edit_is_a_suggestion_that_a_person_accepts(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes("# 題\r\n\r\n本文\r\n".encode())
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann, agent(server) as client:
        assert (await call(client, "view", "."))[0] == "a.md"
        ann.insert(0, "X")
        await ann.settle()
        assert "X# 題" in (await call(client, "view", "a.md"))[0]
        told, failed = await call(
            client, "str_replace", "a.md", old_str="本文", new_str="新しい本文", description="why"
        )
        assert not failed
        assert "Suggested" in told
        await call(client, "insert", "a.md", insert_line=3, insert_text="最後")
        await ann.until(lambda: len(ann.state["suggestions"]) == 2)
        first, last = ann.state["suggestions"]
        assert (first["search"], first["replace"], first["reason"]) == ("本文", "新しい本文", "why")
        assert first["range"] == {"start": 6, "end": 8}
        assert str(ann) == "X# 題\n\n本文\n"
        async with server.client() as http:
            base = "/api/pages/a.md/suggestions"
            taken = await http.post(f"{base}/{first['id']}/accept")
            assert taken.json()["suggestion"]["status"] == "accepted"
            again = await http.post(f"{base}/{first['id']}/accept")
            assert (again.status_code, again.json()["error"]["code"]) == (409, "settled")
            assert (await http.post(f"{base}/none/accept")).status_code == 404
            assert (await http.post(f"{base}/accept")).json()["accepted"] == [last["id"]]
            counts = (await http.get(base)).json()["counts"]
            assert counts == {"pending": 0, "accepted": 2, "rejected": 0}
        await ann.until(lambda: str(ann) == "X# 題\n\n新しい本文\n最後\n")
        await on_disk(file, "X# 題\r\n\r\n新しい本文\r\n最後\r\n".encode(), 2)


@pytest.mark.slow
async def test_a_suggestion_whose_place_changed_is_refused_with_a_candidate(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one two three\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann, agent(server) as client:
        await call(client, "str_replace", "a.md", old_str="one two three", new_str="one 2 three")
        ann.insert(3, " and a half")
        await ann.until(lambda: bool(ann.state["suggestions"]))
        await ann.until(lambda: ann.state["suggestions"][0]["status"] == "changed")
        async with server.client() as http:
            place = f"/api/pages/a.md/suggestions/{ann.state['suggestions'][0]['id']}"
            refused = await http.post(f"{place}/accept")
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (409, "changed")
            assert error["text"] == "one and a half two three"
            assert error["candidate"]["replace"] == "one and a half 2 three"
            taken = await http.post(f"{place}/accept", json={"candidate": True})
            assert taken.json()["suggestion"]["status"] == "accepted"
        await ann.until(lambda: str(ann) == "one and a half 2 three\n")


@pytest.mark.slow
async def test_suggestions_outlive_the_server(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\ntwo\n")
    async with serving(tmp_path) as server, agent(server) as client:
        await call(client, "str_replace", "a.md", old_str="two", new_str="2")
    (tmp_path / "a.md").write_bytes(b"zero\none\ntwo\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann:
        await ann.until(lambda: bool(ann.state.get("suggestions")))
        (kept,) = ann.state["suggestions"]
        assert (kept["status"], kept["line"], kept["search"]) == ("pending", 3, "two")
        async with server.client() as http:
            await http.post(f"/api/pages/a.md/suggestions/{kept['id']}/accept")
        await on_disk(tmp_path / "a.md", b"zero\none\n2\n")


@pytest.mark.slow
async def test_in_auto_mode_an_edit_is_in_the_text_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, "--mcp", "auto") as server, agent(server) as client:
        await call(client, "create", "new/b.md", file_text="one\n")
        assert (await call(client, "create", "new/b.md", file_text="x"))[1]
        async with Tab(server.url, "new/b.md") as ann:
            await call(client, "insert", "new/b.md", insert_line=1, insert_text="two")
            await ann.until(lambda: str(ann) == "one\ntwo\n")
        told, failed = await call(client, "str_replace", "new/b.md", old_str="nine", new_str="9")
        assert failed
        assert "not_found" in told


@pytest.mark.slow
async def test_only_those_with_the_token_of_writers_are_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with server.client(Authorization=f"Bearer {server.reading_token}") as http:
            assert (await http.post("/mcp", json=body)).status_code == 403
        async with server.client(Authorization="Bearer wrong") as http:
            assert (await http.post("/mcp", json=body)).status_code == 401


async def talk(client: Client, command: str, **more: Any) -> tuple[str, bool]:
    answer = await client.call_tool("page_comments", {"command": command, "path": "a.md", **more})
    (content,) = answer.content
    assert content.type == "text"
    return content.text, bool(answer.is_error)


async def test_an_agent_takes_part_in_the_comments(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one two one\n", encoding="utf-8")
    async with serving(tmp_path) as server, agent(server) as client, server.client() as http:
        assert not (await talk(client, "list"))[1]
        said = {"range": {"start": 4, "end": 7}, "words": "two", "text": "Why?\nMCP: Because", "name": "Ann"}
        thread = (await http.post("/api/pages/a.md/comments", json=said)).json()["thread"]["id"]
        told, _ = await talk(client, "list")
        assert thread in told
        assert "\nMCP:" not in told  # nobody speaks as somebody else
        assert not (await talk(client, "reply", thread=thread, text="Better so."))[1]
        assert not (await talk(client, "resolve", thread=thread))[1]
        told, failed = await talk(client, "add", words="two one", text="@assistant and this?")
        assert not failed
        threads = (await http.get("/api/pages/a.md/comments")).json()["threads"]
        assert [[each["by"] for each in one["comments"]] for one in threads] == [["Ann", "MCP"], ["MCP"]]
        assert [one["resolved_by"] for one in threads] == ["MCP", ""]
        assert [one["quote"] for one in threads] == ["two", "two one"]
        assert (await http.get("/api/pages/a.md")).json()["text"] == "one two one\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "add", "words": "one", "text": "Which?"},
        {"command": "add", "words": "three", "text": "Where?"},
        {"command": "add", "words": "two", "text": " "},
        {"command": "add", "text": "x"},
        {"command": "reply", "thread": "none", "text": "x"},
        {"command": "resolve", "thread": "none"},
        {"command": "resolve"},
    ],
)
async def test_a_comment_without_a_place_is_refused_and_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    (tmp_path / "a.md").write_text("one two one\n", encoding="utf-8")
    async with serving(tmp_path) as server, agent(server) as client, server.client() as http:
        assert (await talk(client, **arguments))[1]
        assert (await http.get("/api/pages/a.md/comments")).json()["threads"] == []


async def test_an_agent_comments_on_no_page_that_may_only_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n", encoding="utf-8")
    async with serving(tmp_path, "--read-only") as server, agent(server) as client:
        assert (await talk(client, "add", words="one", text="Why?"))[1]
        assert not (await talk(client, "list"))[1]

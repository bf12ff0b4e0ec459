"""A page and its file: outside changes, files that go away or cannot be written, history."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kakite.collab.store import prepare_store_file
from kakite.workspace import ensure_state_folder, open_edit_log
from tests.bounds import WITHIN
from tests.collab.server import Tab, on_disk, serving, signalled

pytestmark = pytest.mark.anyio


def replaced(file: Path, data: bytes) -> None:
    """Write a file as an editor does: all at once."""
    new = file.with_name(f".{file.name}.tmp")
    new.write_bytes(data)
    new.replace(file)


@pytest.mark.slow
async def test_what_others_write_into_the_file_comes_in_beside_what_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes("はじめ\r\n中\r\n終わり\r\n".encode())
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann:
        ann.insert(3, "！")
        replaced(file, "はじめ\r\n中\r\n終わり\r\n追加\r\n".encode())
        await ann.until(lambda: str(ann) == "はじめ！\n中\n終わり\n追加\n")
        await on_disk(file, "はじめ！\r\n中\r\n終わり\r\n追加\r\n".encode())
        await ann.until(lambda: ann.state["file"] == {"saved": True, "problem": None})


@pytest.mark.slow
async def test_a_file_that_was_removed_is_told_and_written_again_by_the_next_change(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"one\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann:
        file.rename(tmp_path / "b.md")
        await ann.until(lambda: bool(ann.state["file"]["problem"]))
        assert str(ann) == "one\n"
        assert not file.exists()
        ann.insert(4, "two\n")
        await on_disk(file, b"one\ntwo\n")
        await ann.until(lambda: ann.state["file"] == {"saved": True, "problem": None})
        assert (tmp_path / "b.md").read_bytes() == b"one\n"


@pytest.mark.slow
async def test_a_character_that_the_file_cannot_hold_is_told_and_kept_in_the_page(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    data = "日本語の文章です。\r\n次の行もあります。\r\n".encode("shift_jis")
    file.write_bytes(data)
    async with serving(tmp_path) as server:
        async with Tab(server.url, "a.txt") as ann:
            ann.insert(0, "👍")
            await ann.until(lambda: "👍" in (ann.state["file"]["problem"] or ""))
            assert file.read_bytes() == data
        await server.end()
    async with serving(tmp_path) as server, Tab(server.url, "a.txt") as ann:
        assert str(ann).startswith("👍日本語")
        ann.delete(0, 1)
        ann.insert(0, "新")
        await on_disk(file, "新".encode("shift_jis") + data)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
async def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    small = [
        *("bwrap", "--dev-bind", "/", "/", "--size", "65536", "--tmpfs", str(folder)),
        *("sh", "-c", f'echo one > "{folder}/a.md"; exec "$@"', "sh"),
    ]
    async with serving(folder, before=small) as server, Tab(server.url, "a.md") as ann:
        ann.insert(4, "x" * 100_000)
        await ann.until(lambda: "full" in (ann.state["file"]["problem"] or ""))
        ann.insert(0, "still here ")
        await ann.settle()
        async with server.client() as client:
            text = (await client.get("/api/pages/a.md")).json()["text"]
        assert text == "still here one\n" + "x" * 100_000
        ann.delete(len(str(ann)) - 100_000, len(str(ann)))
        await ann.until(lambda: ann.state["file"] == {"saved": True, "problem": None})


@pytest.mark.slow
async def test_a_file_that_nobody_may_write_is_a_page_to_read(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "notes.md").write_bytes(b"one\n")
    async with serving(tmp_path) as server, Tab(server.url, ".vscode/notes.md") as ann:
        async with server.client() as client:
            assert (await client.get("/api/pages/.vscode/notes.md")).json()["writable"] is False
        ann.insert(0, "x")
        await ann.until(lambda: ann.closed == 4403)


@pytest.mark.slow
async def test_a_change_is_undone_by_kakite_undo_and_the_page_follows(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"one\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md", "Ann") as ann:
        ann.insert(4, "two\n")
        await on_disk(file, b"one\ntwo\n")
        await ann.until(lambda: ann.state["file"]["saved"])
        told = await command("history", str(file), "--root", str(tmp_path))
        assert "collab: API" in told
        await command("undo", str(file), "--root", str(tmp_path), "--yes")
        await ann.until(lambda: str(ann) == "one\n")
        assert file.read_bytes() == b"one\n"


async def command(*words: str) -> str:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kakite", *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(WITHIN):
        said, _ = await program.communicate()
    assert program.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.slow
async def test_all_text_is_on_disk_when_the_server_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann, Tab(server.url, "a.md") as ben:
        ann.insert(0, "the last word\n")
        await ben.until(lambda: str(ben) == str(ann))
        assert await server.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert file.read_bytes() == b"the last word\n"


@pytest.mark.slow
async def test_a_write_on_its_way_when_the_server_ends_is_not_taken_for_anothers(
    tmp_path: Path,
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\n")
    history = open_edit_log(ensure_state_folder(os.environ), str(pages))
    async with serving(pages) as server, Tab(server.url, "a.md") as ann, Tab(server.url, "a.md") as ben:
        with history.locks.acquire([str(file)]):
            ann.insert(4, "two\n")
            await until_writing(pages)
            ann.insert(8, "three\n")
            await ben.until(lambda: str(ben) == "one\ntwo\nthree\n")
            signalled(server.program, signal.SIGTERM)
            await ann.until(lambda: ann.closed is not None)
        await server.end()
    assert file.read_bytes() == b"one\ntwo\nthree\n"
    async with serving(pages) as server, Tab(server.url, "a.md") as late:
        assert str(late) == "one\ntwo\nthree\n"


async def until_writing(pages: Path) -> None:
    """Wait until the server is about to write a page's file."""
    async with asyncio.timeout(WITHIN):
        while look_up(pages, "writing") is None:  # noqa: ASYNC110 - a store tells nobody
            await asyncio.sleep(0.02)


def look_up(pages: Path, column: str) -> Any:
    """Return what the store of a folder with one page has of it."""
    store = prepare_store_file(ensure_state_folder(os.environ), str(pages))
    with closing(sqlite3.connect(store)) as database:
        (value,) = database.execute(f"SELECT {column} FROM page").fetchone() or (None,)
    return value


@pytest.mark.slow
async def test_after_a_kill_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes("初め\r\n".encode())
    ann = Tab("http://127.0.0.1:0", "a.md")
    text = "初め\n"
    port = 0
    for count in range(3):
        async with serving(tmp_path, port=port) as server:
            port = server.port
            ann.url = f"ws://127.0.0.1:{port}/ws/a.md"
            await ann.join()
            ann.insert(len(str(ann)), f"{count} 👍\n")
            text += f"{count} 👍\n"
            await ann.settle()
            await server.end(signal.SIGKILL)
            await ann.leave()
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ben:
        ann.url = ben.url
        await ann.join()
        await ben.until(lambda: str(ben) == text)
        assert str(ann) == text
        await on_disk(file, text.replace("\n", "\r\n").encode())
        await ann.leave()


@pytest.mark.slow
async def test_what_a_killed_server_left_unwritten_is_written_by_the_next_without_anybody(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"one\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann, Tab(server.url, "a.md") as ben:
        ann.insert(4, "two\n")
        await ben.until(lambda: str(ben) == "one\ntwo\n")
        async with asyncio.timeout(WITHIN):  # it is stored first; the file comes later
            while not look_up(tmp_path, "dirty") and file.read_bytes() == b"one\n":  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.02)
        await server.end(signal.SIGKILL)
    if file.read_bytes() == b"one\n":
        os.utime(file)
    async with serving(tmp_path):
        await on_disk(file, b"one\ntwo\n")

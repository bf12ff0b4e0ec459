"""Pages over the command, HTTP and the websocket, as a browser uses them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.collab.server import TOKEN, Tab, on_disk, serving

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_two_people_write_a_file_together(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes("# 日本語\r\none\r\n".encode())
    async with serving(tmp_path) as server, Tab(server.url, "notes.md", "Ann") as ann:
        assert str(ann) == "# 日本語\none\n"
        async with Tab(server.url, "notes.md", "Ben") as ben:
            ann.insert(5, " 👍")
            ben.insert(len(str(ben)), "two\n")
            await ann.until(lambda: str(ann) == "# 日本語 👍\none\ntwo\n")
            await ben.until(lambda: str(ben) == str(ann))
            await ann.until(lambda: ann.names() == {"Ann", "Ben"} - {"Ann"} or ann.names() == {"Ann", "Ben"})
            await on_disk(tmp_path / "notes.md", "# 日本語 👍\r\none\r\ntwo\r\n".encode(), 2)


@pytest.mark.slow
async def test_a_link_is_changed_for_a_cookie_that_opens_the_page(tmp_path: Path) -> None:
    (tmp_path / "a b.md").write_text("x\n", encoding="utf-8")
    async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.url) as browser:
        assert (await browser.get("/")).status_code == 401
        assert (await browser.get("/api/pages")).json()["error"]["code"] == "not_signed_in"
        came = await browser.get("/", params={"token": TOKEN})
        assert (came.status_code, came.headers["location"]) == (303, "/")
        assert "httponly" in came.headers["set-cookie"].lower()
        assert TOKEN not in came.headers["set-cookie"]
        page = await browser.get("/")
        assert page.status_code == 200
        assert "unsafe" not in page.headers["content-security-policy"]
        me = (await browser.get("/api/me")).json()
        assert me["can"] == {"read": True, "write": True, "assist": True}
        listed = (await browser.get("/api/pages")).json()["pages"]
        assert [(each["name"], each["writable"]) for each in listed] == [("a b.md", True)]
        one = (await browser.get("/api/pages/a%20b.md")).json()
        assert (one["text"], one["line_end"], one["writable"]) == ("x\n", "\n", True)
        assert (await browser.get("/api/pages/none.md")).status_code == 404

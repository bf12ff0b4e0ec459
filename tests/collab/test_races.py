"""People type while the assistant, or another agent, edits: seven races, through the real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest

from tests.collab.model import block, speaking
from tests.collab.server import Tab, serving
from tests.collab.test_assist import Told, events
from tests.collab.test_mcp import agent, call

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PAGE = "# Mon\n- call Ann\n\n# Tue\n- rest\n"
ANN = PAGE.index("Ann")
SEARCH, REPLACE = "- call Ann", "- call Ann at 9"

RACES: dict[str, tuple[list[tuple[int, int, str]], str]] = {
    "nothing": ([], PAGE.replace("Ann", "Ann at 9")),
    "a line above": ([(0, 0, "# Sun\n")], "# Sun\n" + PAGE.replace("Ann", "Ann at 9")),
    "a word in the line": ([(ANN, 0, "dear ")], PAGE.replace("Ann", "dear Ann at 9")),
    "日本語 in the line": ([(ANN, 0, "すぐ")], PAGE.replace("Ann", "すぐAnn at 9")),
    "a word behind it": ([(ANN + 3, 0, " soon")], PAGE.replace("Ann", "Ann soon at 9")),
    "a copy at the end": ([(len(PAGE), 0, "- call Ann\n")], PAGE.replace("Ann", "Ann at 9") + "- call Ann\n"),
    "another word, and a copy": (
        [(ANN, 3, "Bob"), (len(PAGE), 0, "- call Ann\n")],
        PAGE.replace("Ann", "Bob") + "- call Ann\n",
    ),
}


def reads(tab: Tab, text: str) -> bool:
    return str(tab) == text


def type_race(tab: Tab, race: str) -> bool:
    """Type what the race says; return whether that leaves the words that the edit replaces."""
    steps, _ = RACES[race]
    for at, gone, word in steps:
        if gone:
            tab.delete(at, at + gone)
        tab.insert(at, word)
    return not any(gone for _, gone, _ in steps)


@pytest.mark.parametrize("mode", ["auto", "review"])
async def test_the_assistants_edit_means_the_text_that_it_was_shown(tmp_path: Path, mode: str) -> None:
    for race in RACES:
        (tmp_path / f"{race}.md").write_text(PAGE, encoding="utf-8")
    async with speaking() as model, asyncio.timeout(60):
        model.pieces, model.held_from = [block(SEARCH, REPLACE)], 0
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            server.client() as http,
        ):
            for race, (_, after) in RACES.items():
                model.free = asyncio.Event()
                told: list[Told] = []
                is_left = True
                wish = {"message": "x", "mode": mode}
                async with (
                    Tab(server.url, f"{race}.md") as ann,
                    http.stream("POST", f"/api/pages/{race}.md/assist", json=wish) as answer,
                    aclosing(events(answer)) as heard,
                ):
                    async for each in heard:
                        told.append(each)
                        if each[1] == "run":
                            is_left = type_race(ann, race)
                            await ann.settle()
                            model.free.set()
                    codes = [each[2]["code"] for each in told if each[1] == "failure"]
                    assert codes == ([] if is_left else ["changed"]), race
                    await http.post(f"/api/pages/{race}.md/suggestions/accept")
                    await ann.until(partial(reads, ann, after))


async def test_an_agents_edit_means_the_page_as_it_viewed_it(tmp_path: Path) -> None:
    for race in RACES:
        (tmp_path / f"{race}.md").write_text(PAGE, encoding="utf-8")
    async with serving(tmp_path, "--mcp", "auto") as server, agent(server) as client:
        for race, (_, after) in RACES.items():
            async with Tab(server.url, f"{race}.md") as ann:
                await call(client, "view", f"{race}.md")
                is_left = type_race(ann, race)
                await ann.settle()
                told, failed = await call(
                    client, "str_replace", f"{race}.md", old_str=SEARCH, new_str=REPLACE
                )
                assert failed is not is_left, (race, told)
                assert is_left or "changed" in told
                await ann.until(partial(reads, ann, after))


async def test_an_agent_may_edit_what_it_wrote_itself_since_it_viewed_the_page(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE, encoding="utf-8")
    async with (
        serving(tmp_path, "--mcp", "auto") as server,
        Tab(server.url, "a.md") as ann,
        agent(server) as client,
    ):
        await call(client, "view", "a.md")
        await call(client, "str_replace", "a.md", old_str="- rest", new_str="- sleep")
        ann.insert(0, "X")
        await ann.settle()
        told, failed = await call(client, "str_replace", "a.md", old_str="- sleep", new_str="- sleep well")
        assert not failed, told
        await ann.until(lambda: str(ann) == "X" + PAGE.replace("rest", "sleep well"))


async def test_an_agent_counts_the_lines_that_it_wrote_and_not_those_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo\nthree\n", encoding="utf-8")
    async with (
        serving(tmp_path, "--mcp", "auto") as server,
        Tab(server.url, "a.md") as ann,
        agent(server) as client,
    ):
        await call(client, "view", "a.md")
        ann.insert(0, "zero\n")
        await ann.settle()
        for line, text in ((1, "one and a half"), (3, "two and a half")):
            told, failed = await call(client, "insert", "a.md", insert_line=line, insert_text=text)
            assert not failed, told
        await ann.until(lambda: str(ann) == "zero\none\none and a half\ntwo\ntwo and a half\nthree\n")

"""What is written without a connection outlives the tab, and comes in once, whatever became of the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import environment
from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.building import SOURCES, node
from tests.collab.browser.test_writing import LOST, written
from tests.collab.server import serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    return made


async def again(made: Room) -> None:
    """Start the server that was ended."""
    made.forgiven.append(LOST)
    made.server = await made.further.enter_async_context(serving(made.folder, port=made.server.port))


async def kept(person: Person) -> None:
    """Wait until the page says that it keeps what was written in the browser."""
    await person.tab.locator("#state[data-text=offlineKept]").wait_for()


async def leave(person: Person) -> None:
    """Close the tab without further ado; another one of the same browser is there, empty."""
    tab = await person.tab.context.new_page()
    tab.on("console", lambda message: person.complaints.append(message.text))
    tab.on("pageerror", lambda error: person.complaints.append(str(error)))
    await person.tab.close()
    person.tab = tab


async def come_again(person: Person, made: Room, page: str) -> None:
    """Close the tab, and open the page in another one of the same browser."""
    await leave(person)
    await person.open(made.server, page)


async def test_what_is_written_without_a_connection_outlives_its_tab(folder: Path) -> None:
    page = written(folder, "Ann: \nBen: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Ann: ")
        await ann.write("before, ")
        await ann.saved()
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.write("in the tunnel 山👩‍🌾")
        await ann.tab.keyboard.press("Backspace")
        await kept(ann)
        await again(made)
        ben = await made.person("Ben", page)
        await ben.put("Ben: ")
        await ben.write("at home")
        await ben.saved()
        await come_again(ann, made, page)
        text = "Ann: before, in the tunnel 山\nBen: at home\n"
        await ben.reads(text)
        await ann.saved()
        assert await made.same(page) == text
        # And it is not kept any longer: nothing comes twice.
        await ben.put("in the tunnel 山")
        for _ in range(2):
            await ben.tab.keyboard.press("Backspace")
        await ben.saved()
        await come_again(ann, made, page)
        await ann.saved()
        assert await made.same(page) == text.replace("l 山", "l")


async def test_closing_a_tab_with_something_unsent_is_asked_about(folder: Path) -> None:
    page = written(folder, "Ann: \n")
    asked: list[str] = []
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Ann: ")
        await ann.write("sent")
        await ann.saved()
        second = await ann.tab.context.new_page()
        second.on("dialog", lambda dialog: asked.append(dialog.type))
        await second.goto(ann.tab.url)
        await second.locator(".cm-content").click()
        await second.close(run_before_unload=True)
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.write(" unsent")
        async with ann.tab.expect_event("dialog") as coming:
            await ann.tab.close(run_before_unload=True)
        dialog = await coming.value
        assert dialog.type == "beforeunload"
        await dialog.dismiss()
        assert asked == []
        assert await ann.text() == "Ann: sent unsent\n"
        await again(made)
        await ann.saved()
        assert await made.same(page) == "Ann: sent unsent\n"


@pytest.mark.parametrize("checked", ["unsent", "draft"])
def test_what_is_confirmed_and_what_is_ones_own_make_the_text_whatever_others_write(
    tmp_path: Path, checked: str
) -> None:
    program = tmp_path / "own.mjs"
    source = f"src/{checked}.check.ts"
    made = [SOURCES / "node_modules/esbuild/bin/esbuild", source, "--bundle", "--format=esm"]
    for command in ([*made, "--platform=node", f"--outfile={program}"], [program, "11"]):
        done = subprocess.run(
            [node(), *command] if command[0] == program else command,
            cwd=SOURCES,
            env={**environment(tmp_path), "PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"all as it should be\n"


# A line that takes what is written and brings it nowhere, when the test says so.
DEAD = """() => {
  const Real = WebSocket;
  let dead = false;
  addEventListener("kakite-dead-line", () => { dead = true; });
  addEventListener("kakite-line-again", () => { dead = false; });
  window.WebSocket = class extends Real {
    constructor(...given) {
      super(...given);
      addEventListener("kakite-line-again", () => this.close());
    }
    send(data) { if (!dead) super.send(data); }
  };
}"""


async def test_what_went_into_a_dead_line_is_not_called_saved(folder: Path) -> None:
    page = written(folder, "Ann: \n")
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.add_init_script(f"({DEAD})()")
        await ann.open(made.server, page)
        await ann.put("Ann: ")
        await ann.write("heard")
        await ann.saved()
        await ann.tab.evaluate("dispatchEvent(new Event('kakite-dead-line'))")
        await ann.write(" unheard")
        await ann.tab.locator("#state[data-text=saving]").wait_for()
        async with ann.tab.expect_event("dialog") as coming:
            # The question comes once the answer is late.
            await ann.tab.wait_for_function(
                "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
            )
            await ann.tab.close(run_before_unload=True)
        await (await coming.value).dismiss()
        await ann.tab.evaluate("dispatchEvent(new Event('kakite-line-again'))")
        await ann.saved()
        assert await made.same(page) == "Ann: heard unheard\n"


async def begin_anew(made: Room, page: str, text: str | None = None) -> None:
    """Lose all that the server knows but the file, which has another text then, and start it."""
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]))
    if text is not None:
        written(made.folder, text, page)
    await again(made)


@pytest.mark.parametrize("closes", [False, True])
async def test_a_server_that_lost_its_store_gets_what_was_unsent_once_and_doubles_nothing(
    folder: Path, closes: bool
) -> None:
    page = written(folder, "# 庭\n\nAnn: \n\nthe end\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Ann: ")
        await ann.write("sent 👩‍🌾")
        await ann.saved()
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.write(", unsent 山")
        await ann.put("the ")
        await ann.write("very ")
        await kept(ann)
        if closes:  # before the server is back: else this tab may still bring in what was unsent
            await leave(ann)
        await begin_anew(made, page, "# 庭園\n\nAnn: sent 👩‍🌾\n\nthe end\n\nBy another program.\n")
        if closes:
            await ann.open(made.server, page)
        expected = "# 庭園\n\nAnn: sent 👩‍🌾, unsent 山\n\nthe very end\n\nBy another program.\n"
        await ann.reads(expected)
        await ann.saved()
        assert await made.same(page) == expected
        assert await ann.tab.locator("#rescued").is_hidden()
        # It is an edit of one's own.
        await ann.tab.locator("#undo").click()
        await ann.reads("# 庭園\n\nAnn: sent 👩‍🌾\n\nthe end\n\nBy another program.\n")
        await ann.tab.locator("#redo").click()
        await ann.reads(expected)
        await come_again(ann, made, page)
        await ann.saved()
        assert await made.same(page) == expected


async def test_a_server_that_lost_its_store_doubles_nothing_of_a_tab_that_wrote_nothing(folder: Path) -> None:
    page = written(folder, "# 庭\n\nHello page\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Hello")
        await ann.write(" my")
        await ann.saved()
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await begin_anew(made, page)
        await ann.saved()
        assert await made.same(page) == "# 庭\n\nHello my page\n"
        await ann.write(" own")
        await ann.saved()
        assert await made.same(page) == "# 庭\n\nHello my own page\n"


async def test_what_has_no_place_any_more_is_shown_to_be_copied(folder: Path) -> None:
    page = written(folder, "# Title\n\nA paragraph about beans.\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.saved()
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.put("about ")
        await ann.write("long and tender ")
        await kept(ann)
        other = "# Title\n\nWhat stands here now is something else altogether.\n"
        await begin_anew(made, page, other)
        panel = ann.tab.locator("#rescued")
        await panel.wait_for()
        assert await panel.locator("textarea").input_value() == "long and tender "
        assert await made.same(page) == other
        await come_again(ann, made, page)
        panel = ann.tab.locator("#rescued")
        await panel.wait_for()  # until it was seen to
        await panel.get_by_role("button", name="Dismiss").click()
        await come_again(ann, made, page)
        await ann.saved()
        assert await ann.tab.locator("#rescued").is_hidden()

"""The page that shows an edit, in a real browser, inside of a host that speaks the wire form of MCP Apps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.extension import advertise
from tests.agent.pages import chromium
from tests.bounds import WITHIN
from tests.serve.test_server import server

from kakite.edit import Change, ChangeSet, unified_diff
from kakite.serve.edit_app import EXTENSION, MIME, URI, render_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("page")]  # one browser for all
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""What a host sends with a page that declares nothing."""
HOST = """<!DOCTYPE html><meta name="viewport" content="width=device-width"><body style="margin:0">
<iframe id="view" sandbox="allow-scripts" style="width:100%;border:0"></iframe>
<script>
const frame = document.getElementById("view"), answers = new Map();
let lastId = 0;
window.seen = [];
const post = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  seen.push(data);
  if (data.method === "ui/initialize") {
    post({ id: data.id, result: {
      protocolVersion: "2026-01-26", hostInfo: { name: "a host", version: "1" },
      hostCapabilities: {}, hostContext,
    } });
  }
  if (data.method === "ui/notifications/size-changed") frame.style.height = `${data.params.height}px`;
  if (data.method === undefined) answers.get(data.id)?.(data);
});
window.notify = (method, params) => post({ method, params });
window.request = (method, params = {}) => new Promise((resolve) => {
  answers.set((lastId += 1), resolve);
  post({ id: lastId, method, params });
});
window.deliver = async (result) => {
  notify("ui/notifications/tool-result", result);
  await request("ping");
};
</script>"""
ROWS = """() => [...document.querySelectorAll("section.file tr")].flatMap((row) => {
  const text = row.querySelector(".text"), mark = { INS: "+", DEL: "-", SPAN: " " };
  const number = Number(row.querySelector(".number")?.textContent);
  return text ? [[mark[text.tagName], number, text.textContent]] : [];
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium on this system: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@dataclass
class Host:
    """A client that shows the page."""

    tab: Page
    complaints: list[str] = field(default_factory=list[str])
    """What the browser complained of, and what the page asked the network for."""

    @property
    def view(self) -> Frame:
        found = self.tab.frame(url="http://view.test/")
        assert found
        return found

    def deliver(self, result: Mapping[str, Any]) -> None:
        """Send the result of a call, and wait until it is shown."""
        self.tab.evaluate("(result) => deliver(result)", result)

    def seen(self, method: str) -> list[dict[str, Any]]:
        """Return what the page sent under this method."""
        return [each["params"] for each in self.tab.evaluate("seen") if each.get("method") == method]

    def rows(self) -> list[tuple[str, int, str]]:
        """Return the lines that the page shows, each with its mark and its number."""
        return [(mark, number, text) for mark, number, text in self.view.evaluate(ROWS)]


@contextmanager
def hosting(browser: Browser, context: Mapping[str, Any] | None = None, width: int = 800) -> Generator[Host]:
    """Show the page in a host, with this context; at the end the browser may have complained of nothing."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.set_default_timeout(WITHIN * 1000)
    host = Host(tab)
    tab.on("console", lambda message: host.complaints.append(message.text))
    tab.on("pageerror", lambda error: host.complaints.append(str(error)))

    def answer(route: Any) -> None:
        match route.request.url:
            case "http://host.test/":
                route.fulfill(content_type="text/html", body=HOST)
            case "http://view.test/":
                policy = {"Content-Security-Policy": POLICY}
                route.fulfill(content_type="text/html", body=render_page(), headers=policy)
            case other:
                host.complaints.append(f"asked for {other}")
                route.abort()

    tab.route("**/*", answer)
    tab.goto("http://host.test/")
    tab.evaluate("(context) => { window.hostContext = context; }", context or {})
    tab.evaluate("document.getElementById('view').src = 'http://view.test/'")
    tab.wait_for_function("seen.some((each) => each.method === 'ui/notifications/initialized')")
    yield host
    assert host.complaints == []
    tab.close()


@pytest.fixture(scope="module")
def shared_host(browser: Browser) -> Iterator[Host]:
    with hosting(browser) as host:
        yield host


def ask(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the server answers to these calls of a client that shows pages."""

    async def call() -> list[dict[str, Any]]:
        shows = [advertise(EXTENSION, {"mimeTypes": [MIME]})]
        async with asyncio.timeout(WITHIN):
            async with Client(server("--root", str(folder)), mode="auto", extensions=shows) as client:
                assert (await client.read_resource(URI)).contents
                results = [await client.call_tool(name, arguments) for name, arguments in calls]
        return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in results]

    with ThreadPoolExecutor(1) as other:  # a browser has the loop of this thread
        return other.submit(asyncio.run, call()).result(WITHIN)


def build_result(diff: str, told: str = "") -> dict[str, Any]:
    """Return a result with this diff, as the server would send it."""
    return {"content": [{"type": "text", "text": told}], "_meta": {"kakite/details": {"diff": diff}}}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "text_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


HEADS = (
    *("-- a/x", "++ b/x", "@@ -1,9 +1,9 @@", "diff --git a/x b/x", "\\ No newline at end of file"),
    *("rename from x", "… the diff goes on", "-", "+", " ", ""),
)
"""Lines of a file that look like parts of a diff, some behind their mark."""
headlike = st.lists(st.sampled_from(HEADS)).map("\n".join)
lines = headlike | st.text(
    st.sampled_from("\n\n\n\r\t<>&'\"+-@\\ ab\u202e\u2066\u200f\ufeff\u05d0\u2028…😀")
    | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=40,
)


@given(files=st.lists(st.tuples(lines, lines), min_size=1, max_size=3))
def test_the_lines_of_the_page_are_those_of_the_diff(files: list[tuple[str, str]], shared_host: Host) -> None:
    diffs = [
        unified_diff(ChangeSet.of(len(old), [Change(0, len(old), new).narrow(old)]), old, path="a --- b")
        for old, new in files
        if old != new
    ]
    shared_host.deliver(build_result("".join(diffs)))
    shown = shared_host.rows()
    expected = [line for diff in diffs for line in diff.split("\n")[2:-1] if line[0] in " +-"]
    assert [mark + text for mark, _, text in shown] == expected
    if len(files) == 1:
        old, new = (text.split("\n") for text in files[0])
        assert all((old if mark == "-" else new)[number - 1] == text for mark, number, text in shown)


def test_an_edit_is_shown_with_marks_that_can_be_read_without_colors(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (result,) = ask(tmp_path, edit("a.py", "two", "2\n2½"))
    with hosting(browser) as host:
        host.deliver(result)
        view = host.view
        assert view.locator("h1").inner_text() == "Edited"
        assert view.locator("h2").inner_text().split("\n") == ["a.py", "2 added, 1 removed"]
        marks = [cell.inner_text().split() for cell in view.locator("td.mark").all()]
        assert marks == [[], ["−", "removed"], ["+", "added"], ["+", "added"], []]
        assert host.rows()[1:4] == [("-", 2, "two"), ("+", 2, "2"), ("+", 3, "2½")]
        (began,) = host.seen("ui/initialize")
        assert began["protocolVersion"] == "2026-01-26"
        assert {"appInfo", "appCapabilities"} <= set(began)
        high = host.tab.wait_for_function("seen.findLast((each) => each.params?.height > 100)?.params.height")
        assert 100 < high.json_value() < 900


def test_a_refusal_is_shown_with_what_the_file_has_and_the_suggestion(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def main():\n    return compute(1)\n", encoding="utf-8")
    (result,) = ask(tmp_path, edit("a.py", "return compute(2)", "return measure(2)"))
    with hosting(browser) as host:
        host.deliver(result)
        view = host.view
        assert view.locator("h1").inner_text().endswith("Refused: near_miss")
        failure = view.locator("section.failure")
        assert failure.locator("dd").all_inner_texts()[0].strip() == "return compute(1)"
        assert failure.locator("dd").all_inner_texts()[1].strip() == "return compute(2)"
        assert [row for row in host.rows() if row[0] != " "] == [
            ("-", 2, "    return compute(1)"),
            ("+", 2, "    return measure(1)"),
        ]
        assert view.locator("section.suggestion h2").first.inner_text() == "Suggested instead"
        assert not view.locator("pre").is_visible()
        view.locator("summary").focus()
        host.tab.keyboard.press("Enter")
        assert view.locator("pre").inner_text() == result["content"][0]["text"]


HOSTILE = (
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\"><style>* { display: none }</style>",
    "if admin: \u202e } \u2066// begin of what is checked\u2069 \u2066",
    "\u05d0\u05d1\u05d2 = 1\r",
    "x" * 20_000,
)


@pytest.mark.parametrize("width", [320, 1280])
def test_hostile_text_is_shown_and_does_nothing(width: int, browser: Browser, tmp_path: Path) -> None:
    name = "<b>\u202egnp.py"
    (tmp_path / name).write_text("old\n", encoding="utf-8")
    new = "\n".join(HOSTILE[:4])
    results = ask(tmp_path, edit(name, "old", new), edit(name, "none of it\n" + HOSTILE[0], new))
    with hosting(browser, width=width) as host:
        host.deliver(results[0])
        assert [text for mark, _, text in host.rows() if mark == "+"] == list(HOSTILE[:4])
        shown = [each.get_attribute("data-name") for each in host.view.locator(".text .control").all()]
        assert shown == ["U+202E", "U+2066", "U+2069", "U+2066", "CR"]
        long = unified_diff(ChangeSet.of(0, [Change(0, 0, HOSTILE[4])]), "", path="a")
        for result in (results[1], build_result(long)):
            host.deliver(result)
            assert host.view.evaluate("document.documentElement.scrollWidth") <= width
            assert host.view.locator("img, style:not(head style), script:not(body > script)").count() == 0
            assert host.view.evaluate("document.title") == "Edit"
        box = host.view.locator("td.line").bounding_box()
        assert box
        assert box["width"] > 0.6 * width
        assert host.rows() == [("+", 1, HOSTILE[4])]


def test_characters_that_turn_text_around_turn_nothing_but_themselves(shared_host: Host) -> None:
    places: list[float] = []
    for text in ("a\u202ebcd", "abcd"):
        diff = f"--- a/a\n+++ b/a\n@@ -0,0 +1,1 @@\n+{text}\n"
        shared_host.deliver(build_result(diff))
        places.append(
            shared_host.view.evaluate(
                """() => {
                  const node = document.querySelector("ins").lastChild, range = document.createRange();
                  const left = (at) => (range.setStart(node, at), range.setEnd(node, at + 1),
                    range.getBoundingClientRect().left);
                  const last = node.data.length - 1;
                  return left(last) - left(last - 1);
                }"""
            )
        )
    assert places[1] > 0
    assert places[0] == pytest.approx(places[1], abs=0.5)


def test_ten_thousand_lines_come_in_two_steps_by_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n".join(map(str, range(10_000))), encoding="utf-8")
    (result,) = ask(
        tmp_path, ("text_editor", {"command": "create", "path": "b", "file_text": "0\n" * 10_000})
    )
    with hosting(browser) as host:
        host.deliver(result)
        assert len(host.rows()) < 500
        button = host.view.get_by_role("button")
        assert re.fullmatch(r"Show \d+ more lines", button.inner_text())
        button.focus()
        host.tab.keyboard.press("Enter")
        button.wait_for(state="detached")
        assert host.rows() == [("+", number, "0") for number in range(1, 10_001)]
        assert host.view.evaluate("document.activeElement.tagName") == "TABLE"


def test_what_is_cut_off_is_said(browser: Browser, tmp_path: Path) -> None:
    (result,) = ask(
        tmp_path, ("text_editor", {"command": "create", "path": "b", "file_text": "0" * 70 + "\n"})
    )
    diff = result["_meta"]["kakite/details"]["diff"] + "… the diff goes on, 7 more characters"
    with hosting(browser) as host:
        host.deliver(build_result(diff))
        assert host.view.locator("tr.note").last.inner_text() == "… the diff goes on, 7 more characters"


@pytest.mark.parametrize("result", [{"isError": True}, {}, {"_meta": {"kakite/details": {"folder": "/"}}}])
def test_without_a_diff_the_text_is_shown(result: dict[str, Any], shared_host: Host) -> None:
    told = "Error (not_found):\n<i>none</i>"
    shared_host.deliver({"content": [{"type": "text", "text": told}], **result})
    assert shared_host.view.locator("pre").inner_text() == told
    assert shared_host.view.locator("h1").inner_text().endswith("Refused" if "isError" in result else "Done")


MOVES = [
    ("diff --git a/x y b/x y\ndeleted file mode 100644\n", "x y", "deleted"),
    (
        "rename from a\nrename to b\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-1\n+2\n",
        "a → b",
        "renamed, 1 added, 1 removed",
    ),
    (
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+1\n",
        "n",
        "new, 1 added",
    ),
]


def test_files_that_come_go_and_move_are_named(shared_host: Host) -> None:
    diff = "".join(text for text, _, _ in MOVES)
    shared_host.deliver(build_result(diff))
    heads = shared_host.view.locator("h2")
    assert heads.locator(".path").all_inner_texts() == [name for _, name, _ in MOVES]
    assert heads.locator(".counts").all_inner_texts() == [what for _, _, what in MOVES]


def test_the_page_follows_the_theme_and_answers_its_host(browser: Browser) -> None:
    colors = {"--color-background-primary": "rgb(1, 2, 3)", "--color-text-primary": "rgb(250, 251, 252)"}
    paper = "getComputedStyle(document.body).backgroundColor"
    with hosting(browser, {"theme": "dark", "styles": {"variables": colors}}) as host:
        assert host.view.evaluate(paper) == "rgb(1, 2, 3)"
        assert host.view.evaluate("document.documentElement.style.colorScheme") == "dark"
        assert host.tab.evaluate("request('ui/resource-teardown', { reason: 'x' })")["result"] == {}
        assert host.tab.evaluate("request('tools/list')")["error"]["code"] == -32601
    lone = {"--color-background-primary": "rgb(1, 2, 3)", "--x": "1"}
    with hosting(browser, {"theme": "light", "styles": {"variables": lone}}) as host:
        assert host.view.evaluate(paper) == "rgb(255, 255, 255)"
        host.tab.evaluate("notify('ui/notifications/host-context-changed', { theme: 'dark' })")
        host.deliver({"content": [], "_meta": {}})
        assert host.view.evaluate(paper) == "rgb(21, 23, 26)"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_on_what_lies_behind_it(theme: str, browser: Browser) -> None:
    diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 0\n-1\n+2\n"
    with hosting(browser, {"theme": theme}) as host:
        host.deliver(
            {"content": [{"type": "text", "text": "said"}], "_meta": {"kakite/details": {"diff": diff}}}
        )
        ratios: Sequence[float] = host.view.evaluate(CONTRASTS)
    assert len(ratios) > 8
    assert min(ratios) >= 4.5


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colors) => {
    colors.forEach((color) => { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); });
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.getElementById("page"), NodeFilter.SHOW_TEXT);
  const ratios = [];
  for (let node; (node = walker.nextNode()); ) {
    const behind = [];
    for (let at = node.parentElement; at; at = at.parentElement)
      behind.unshift(getComputedStyle(at).backgroundColor);
    const [one, other] = [light(behind), light([getComputedStyle(node.parentElement).color])];
    ratios.push((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05));
  }
  return ratios;
}"""


def test_the_page_listens_to_nobody_but_its_host(shared_host: Host) -> None:
    shared_host.deliver(build_result("", "by the host"))
    message = {
        "jsonrpc": "2.0",
        "method": "ui/notifications/tool-result",
        "params": build_result("", "by another"),
    }
    shared_host.view.evaluate("(message) => postMessage(message, '*')", message)
    shared_host.tab.evaluate("request('ping')")
    shared_host.view.evaluate("() => new Promise((done) => setTimeout(done))")
    assert shared_host.view.locator("pre").inner_text() == "by the host"


def test_a_call_that_is_made_or_cancelled_says_so(browser: Browser) -> None:
    with hosting(browser) as host:
        head = host.view.locator("h1")
        assert head.inner_text() == "Waiting for the edit …"
        host.tab.evaluate("notify('ui/notifications/tool-input', { arguments: { path: '<b>a.py' } })")
        host.view.get_by_text("<b>a.py").wait_for()
        assert head.inner_text() == "Working …"
        host.tab.evaluate("notify('ui/notifications/tool-cancelled', { reason: 'x' })")
        host.view.locator("h1", has_text="cancelled").wait_for()
        assert host.view.get_by_role("status").inner_text() == head.inner_text()

"""The agent's page in a real browser: what a person sees, and what happens when they press a button."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kakite.agent.dashboard.local_runs import LocalRuns
from kakite.agent.run.state import RunStep
from kakite.agent.run.store import RunStore
from kakite.agent.session.mailbox import MailAnswer, Mailbox
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.pages import ASKING, ASKS, HOSTILE, Served, chromium, public, served
from tests.agent.runs import finished_run
from tests.agent.test_dashboard_sessions import stored_session
from tests.bounds import WITHIN

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


@asynccontextmanager
async def browsing(page: Served, **options: object) -> AsyncGenerator[tuple[Page, list[str]]]:
    """Open the page in a browser; the list is what the browser complained of."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium on this system: apt install chromium")
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        context: BrowserContext = await browser.new_context(**options)  # pyright: ignore[reportArgumentType] - by name
        context.set_default_timeout(WITHIN * 1000)
        tab = await context.new_page()
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            await tab.goto(page.entrance)
            yield tab, complaints
        finally:
            await browser.close()


@asynccontextmanager
async def working(*tasks: dict[str, object]) -> AsyncGenerator[tuple[InMemoryWorkflowClient, Served]]:
    """Serve these tasks, with a worker that tells them; a run's result has some lines."""
    client = InMemoryWorkflowClient()
    for task in tasks:
        await client.submit(str(task["id"]), "ask@1", task)
    run = finished_run(say="I edit the file.", result="one\ntwo\nthree", text=HOSTILE)
    async with client.run_worker([ASKING], {}), served(client, lambda _: run) as page:
        yield client, page


async def test_a_person_allows_a_call_and_sees_the_task_go_on() -> None:
    asks = public(id="owner/project#42", asks=ASKS)
    async with working(asks, public(id="other", title="Another")) as (client, page):
        async with browsing(page) as (tab, complaints):
            assert "token" not in tab.url
            await tab.get_by_text("1 asks you").wait_for()
            await tab.get_by_role("link", name="Make --since accept ISO dates").click()
            question = tab.get_by_role("region", name="May the agent call run_command?")
            shown = await question.inner_text()
            assert "rm -rf build\\u202e" in shown
            assert "d1g357" in shown
            await tab.get_by_label("Reason").fill("go ahead")
            await tab.get_by_role("button", name="Allow").click()
            await question.wait_for(state="detached")
            await tab.get_by_text("done", exact=True).first.wait_for()
            answer = await client.get_result("owner/project#42", 10)
            assert answer == {
                "answer": "yes",
                "reason": "go ahead",
                "by": "ann",
                "via": "web",
                "budget": None,
            }
        assert complaints == []


async def test_plan_calls_changes_and_cost_are_seen() -> None:
    async with working(public()) as (_, page), browsing(page) as (tab, complaints):
        await tab.get_by_role("link", name="Make --since").click()
        await tab.get_by_text("What it changed").wait_for()
        plan = tab.get_by_role("region", name="Plan")
        assert " ".join(await plan.locator("li").all_inner_texts()).split() == [
            "✓",
            "look",
            "(done)",
            "○",
            "edit",
        ]
        facts = ("$0.1834 of $2", "41,200 in, 1,890 out of 50,000", "#43", "calls text_editor", "AGENTS.md")
        assert await tab.get_by_text("cost", exact=True).is_visible()
        for text in facts:
            assert await tab.get_by_text(text).first.is_visible()
        assert await tab.locator("ins", has_text="+a = 2").first.is_visible()
        assert complaints == []


async def test_a_run_that_was_interrupted_is_seen_with_how_to_go_on(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    record = records.create_run()
    record.folder.mkdir()
    record.save(replace(finished_run(say="I edit the file."), status=None, phase="act"))
    async with (
        served(InMemoryWorkflowClient(), runs=LocalRuns(records)) as page,
        browsing(page) as (tab, complaints),
    ):
        await tab.get_by_role("link", name="Make a 2").click()
        await tab.get_by_text("What it changed").wait_for()
        assert await tab.get_by_text(f"kakite agent resume {record.id}").is_visible()
        assert await tab.get_by_role("button").count() == 0
        assert complaints == []


async def test_a_session_is_written_to_and_its_question_is_answered(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    record = stored_session(records)
    mailbox = Mailbox(record.folder)
    async with (
        served(InMemoryWorkflowClient(), runs=LocalRuns(records)) as page,
        browsing(page) as (tab, complaints),
    ):
        row = tab.get_by_role("link", name="make a 2")
        assert "session, 1 message" in await row.inner_text()
        await row.click()
        waits = tab.get_by_role("region", name="Messages that wait")
        await waits.get_by_text(f"kakite chat --resume {record.id}").wait_for()
        await tab.get_by_label("Message to this session").fill(f"and b 3 {HOSTILE}")
        await tab.get_by_role("button", name="Send").click()
        await waits.get_by_text("and b 3 <img").wait_for()
        field = await tab.get_by_label("Message to this session").element_handle()
        await tab.wait_for_function("(field) => field.value === ''", arg=field)  # once it is answered
        assert [each.text for each in mailbox.list_messages()] == [f"and b 3 {HOSTILE}"]
        with record.lock():
            await waits.get_by_text("It is open in a terminal or an editor.").wait_for()
            choices = [{"label": "red", "description": "as before"}, {"label": "blue", "description": ""}]
            asked = {
                "kind": "question",
                "digest": "f" * 16,
                "text": "Which colour?",
            }
            mailbox.publish_question({**asked, "choices": choices})
            question = tab.get_by_role("region", name="The agent wants to know something.")
            await question.get_by_role("button", name="blue").click()
            await question.get_by_role("button", name="Answer", exact=True).click()
            await tab.get_by_text("Done.", exact=True).wait_for(state="attached")
            assert mailbox.find_answer("f" * 16) == MailAnswer(answer="answer", reason="blue")
            mailbox.withdraw_question("f" * 16)
            await question.wait_for(state="detached")
        assert complaints == []


async def test_work_that_was_not_checked_is_seen_in_the_list_and_on_its_own(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    record = records.create_run()
    record.folder.mkdir()
    record.save(
        finished_run(check=RunStep(kind="check", text="make test", ok=False, code="denied", seconds=0.0))
    )
    async with (
        served(InMemoryWorkflowClient(), runs=LocalRuns(records)) as page,
        browsing(page) as (tab, complaints),
    ):
        row = tab.get_by_role("link", name="Make a 2")
        assert "done, not checked" in await row.inner_text()
        await row.click()
        await tab.get_by_text("not checked: `make test` was not approved").wait_for()
        assert complaints == []


async def test_a_very_large_change_is_shown_whole_and_answered() -> None:
    lines = [
        "--- a/x",
        "+++ b/x",
        "@@ -1 +1 @@",
        *(f"+    line {number} {'x' * 40}" for number in range(30_000)),
    ]
    text = "\n".join(lines)
    asks = {**ASKS, "text": text, "arguments": {"content": text}}
    async with working(public(asks=asks)) as (_, page), browsing(page) as (tab, complaints):
        await tab.get_by_role("link", name="Make --since").click()
        allow = tab.get_by_role("button", name="Allow")
        await allow.wait_for()
        for shown in (tab.locator(".ask > .diff"), tab.locator(".ask .arguments pre")):
            assert (await shown.text_content() or "").replace("\n", "") == text.replace("\n", "")
        drawn = "(each) => each.checkVisibility({ contentVisibilityAuto: true })"
        assert not await tab.locator(".ask > .diff ins").last.evaluate(drawn)  # until it is scrolled to
        await allow.click()
        await tab.get_by_text("yes by ann").first.wait_for()
        assert complaints == []


async def test_whatever_a_task_is_called_stays_text() -> None:
    tasks = public(
        title=HOSTILE, last=HOSTILE, plan={"goal": HOSTILE, "steps": [{"text": HOSTILE, "done": False}]}
    )
    tasks |= {"address": "javascript:alert(1)", "error": {"code": "x", "message": HOSTILE, "hint": HOSTILE}}
    async with working(tasks) as (_, page), browsing(page) as (tab, complaints):
        await tab.locator("#tasks a").click()
        await tab.locator(".event").first.wait_for()
        assert await tab.locator("main img").count() == 0
        assert await tab.title() == "Kakite"
        assert "\u202e" not in await tab.content()
        assert await tab.locator("a[href^=javascript]").count() == 0
        assert complaints == []


async def test_what_is_typed_stays_while_the_task_changes_around_it() -> None:
    tasks = (public(id="a", asks=ASKS), public(id="b"))
    async with working(*tasks) as (client, page), browsing(page) as (tab, _):
        await tab.locator("#tasks a", has_text="asks for approval").click()
        reason = tab.get_by_label("Reason")
        await reason.fill("half a sent")
        await client.cancel("b")
        await tab.get_by_text("cancelled").wait_for()
        assert await reason.input_value() == "half a sent"
        assert await reason.evaluate("each => each === document.activeElement")


async def test_a_task_is_paused_and_cancelled_only_when_it_is_meant() -> None:
    async with working(public()) as (client, page), browsing(page) as (tab, _):
        await tab.get_by_role("link", name="Make --since").click()
        await tab.get_by_role("button", name="Pause").click()
        await tab.get_by_role("button", name="Resume").click()
        await tab.get_by_role("button", name="Pause").wait_for()
        await tab.get_by_role("button", name="Cancel").click()
        assert (await client.describe("t1")).state != "cancelled"
        await tab.get_by_role("button", name="Really cancel?").click()
        await tab.get_by_role("button", name="Pause").wait_for(state="detached")
        assert (await client.describe("t1")).state == "cancelled"


async def test_all_of_it_is_done_by_the_keyboard() -> None:
    async with working(public(asks=ASKS)) as (client, page), browsing(page) as (tab, _):
        await tab.locator("#tasks a").wait_for()
        for _ in range(2):  # past the link to the task's part
            await tab.keyboard.press("Tab")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("button", name="Refuse").wait_for()
        for _ in range(30):
            await tab.keyboard.press("Tab")
            if await tab.evaluate("document.activeElement.dataset.action") == "no":
                break
        await tab.keyboard.press("Enter")
        await tab.get_by_role("button", name="Refuse").wait_for(state="detached")
        answer = await client.get_result("t1", 10)
        assert isinstance(answer, dict)
        assert answer["answer"] == "no"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_text_stands_out_and_nothing_is_wider_than_a_telephone(scheme: str) -> None:
    tasks = (
        public(asks=ASKS),
        public(id="b", asks={**ASKS, "kind": "budget"}),
        public(id="c", error={"code": "x"}),
    )
    options = {"color_scheme": scheme, "viewport": {"width": 360, "height": 740}}
    async with working(*tasks) as (_, page), browsing(page, **options) as (tab, _):
        for number in range(3):
            await tab.locator("#tasks a").nth(number).click()
            await tab.locator(".event").first.wait_for()
            assert await tab.evaluate("document.documentElement.scrollWidth") <= 360
            weak = await tab.evaluate(CONTRAST)
            assert weak == []


@pytest.mark.parametrize("width", [390, 1200])
async def test_the_cards_of_the_list_stand_whole_in_their_column(width: int) -> None:
    """However long a line of a card is: it ends in dots, and the border is seen on both sides."""
    long = "a task whose last line goes on and on, as the output of a program does, " * 4
    shown = {"last": long, "repository": f"owner/{'r' * 90}"}
    tasks = [public(id=f"t{number}", title=f"Task {number}", **shown) for number in range(3)]
    options = {"viewport": {"width": width, "height": 740}}
    async with working(*tasks) as (_, page), browsing(page, **options) as (tab, _):
        await tab.locator("#tasks a").nth(2).wait_for()
        assert await tab.evaluate("document.querySelector('nav').scrollWidth") == await tab.evaluate(
            "document.querySelector('nav').clientWidth"
        )
        column = await tab.locator("nav").bounding_box()
        assert column
        for number in range(3):
            card = await tab.locator("#tasks a").nth(number).bounding_box()
            assert card
            assert card["x"] >= column["x"] + 8
            assert card["x"] + card["width"] <= min(column["x"] + column["width"], width - 8)


CONTRAST = """() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).map(Number);
    const linear = (each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = parts.slice(0, 3).map((each) => linear(each / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.tagName === "NOSCRIPT") continue;
    const [a, b] = [light(getComputedStyle(element).color), light(back(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) weak.push([element.tagName, element.textContent.slice(0, 30), contrast]);
  }
  return weak;
}"""

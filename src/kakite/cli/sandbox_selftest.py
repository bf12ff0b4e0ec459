"""``kakite doctor --sandbox``: tests every sandbox that isolates with real attempts to escape."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import typer

from kakite.cli.exit_codes import run_until_signal
from kakite.cli.progress import ProgressLine
from kakite.sandbox import BackendInfo, Sandbox, SandboxError, SandboxSpec, list_backends, open_sandbox
from kakite.sandbox.files.temp import temporary_folder
from kakite.sandbox.selftest.cases import LIMITS, EscapeResult, attempt_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestReport:
    """The result of one kind of sandbox."""

    kind: BackendInfo
    outcomes: tuple[EscapeResult, ...] = ()

    def count(self, state: str) -> int:
        """Return how many attempts ended so."""
        return sum(outcome.state == state for outcome in self.outcomes)


def run_selftest(*, as_json: bool, verbose: bool = False) -> int:
    """Try them, print how they did, return the exit code: 0 if one isolates and nothing got out of any.

    Printed are a summary and what was not held; with ``verbose`` what was held, too.
    """
    reports = asyncio.run(run_until_signal(_collect_reports()))
    isolating = [report for report in reports if report.outcomes]
    ok = bool(isolating) and not any(report.count("escaped") for report in isolating)
    if as_json:
        shown = [_to_json(report) for report in reports]
        typer.echo(json.dumps({"ok": ok, "sandboxes": shown}, ensure_ascii=False))
    else:
        _print_reports(reports, verbose=verbose)
    return 0 if ok else 1


async def _collect_reports() -> list[SelfTestReport]:
    """Try them, and tell meanwhile how far it is: on one line of a terminal, elsewhere once at the start."""
    from kakite.sandbox.selftest.cases import load_cases

    found = await list_backends()
    tried = [kind.name for kind in found if kind.available and kind.isolates]
    if tried:
        kinds = " and of ".join(tried)
        sys.stderr.write(f"Trying {len(load_cases())} ways out of {kinds}: this takes a minute or more …\n")
        sys.stderr.flush()
    line = ProgressLine(sys.stderr, "attempt")
    try:
        return [await _test_sandbox(kind, line) for kind in found]
    finally:
        line.close()


async def _test_sandbox(kind: BackendInfo, line: ProgressLine) -> SelfTestReport:
    if not (kind.available and kind.isolates):
        return SelfTestReport(kind=kind)
    with temporary_folder("proof") as folder:
        sandbox = open_sandbox(kind.name, folder / "run", terms=SandboxSpec(limits=LIMITS))
        try:
            await sandbox.prepare()
            outcomes = await attempt_all(
                sandbox,
                limits=LIMITS,
                acts={"git": work_in_repository},
                on_begin=lambda number, total, attempt: line.update(
                    number, total, f"{kind.name}: {attempt.tries}"
                ),
            )
        except SandboxError as error:
            return SelfTestReport(kind=replace(kind, available=False, note=error.message))
        finally:
            await sandbox.destroy()
    return SelfTestReport(kind=kind, outcomes=tuple(outcomes))


async def work_in_repository(sandbox: Sandbox) -> None:
    """Do what the agent does in the project's repository, whatever stands in its settings.

    Raises:
        GitError: git refused.
    """
    from kakite.agent.git.worktree import Worktree

    checkout = Worktree(sandbox, branch="main", author=("Kakite", "kakite@example.org"))
    base = await checkout.get_head()
    await checkout.snapshot(base)
    await checkout.commit("attempt", base)


def _to_json(report: SelfTestReport) -> dict[str, object]:
    states = {state: report.count(state) for state in ("held", "escaped", "untried")}
    return {**asdict(report.kind), **states, "attempts": [asdict(outcome) for outcome in report.outcomes]}


def _print_reports(reports: Sequence[SelfTestReport], *, verbose: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for report in reports:
        console.print(f"\n[bold]{report.kind.name}[/]: ", end="")
        console.print(_format_summary(report), markup=False)
        shown = [each for each in report.outcomes if verbose or each.state != "held"]
        if shown:
            _print_table(console, shown)
    if not verbose and any(report.count("held") for report in reports):
        console.print("\n--verbose lists every attempt and what stopped it", style="dim")


def _format_summary(report: SelfTestReport) -> str:
    if not report.outcomes:
        return report.kind.note
    told = f"{report.count('held')} of {len(report.outcomes)} attempts were stopped"
    untried = report.count("untried")
    return f"{told}, {untried} could not be tried" if untried else told


def _print_table(console: object, outcomes: Iterable[EscapeResult]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    assert isinstance(console, Console)
    marks = {"held": Text("✓", "green"), "escaped": Text("✗", "red"), "untried": Text("–", "yellow")}
    table = Table(box=None, pad_edge=False, show_header=False)
    harm = ""
    for outcome in outcomes:
        first = Text("" if outcome.harm == harm else outcome.harm, "bold")
        table.add_row(first, marks[outcome.state], Text(outcome.tries), Text(outcome.told, "dim"))
        harm = outcome.harm
    console.print(table)

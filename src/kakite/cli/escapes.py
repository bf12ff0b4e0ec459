"""``kakite doctor --sandbox``: every kind of sandbox that isolates, tried with real attempts to get out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import typer

from kakite.cli.ending import until_signalled
from kakite.sandbox import Kind, Sandbox, SandboxError, Terms, kinds, open_sandbox
from kakite.sandbox.attempts import LIMITS, Outcome, attempt_all
from kakite.sandbox.temporary import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one kind of sandbox did."""

    kind: Kind
    outcomes: tuple[Outcome, ...] = ()

    def count(self, state: str) -> int:
        """Return how many attempts ended so."""
        return sum(outcome.state == state for outcome in self.outcomes)


def prove(*, as_json: bool, verbose: bool = False) -> int:
    """Try them, print how they did, return the exit code: 0 if one isolates and nothing got out of any.

    Printed are a summary and what was not held; with ``verbose`` what was held, too.
    """
    reports = asyncio.run(until_signalled(_reports()))
    isolating = [report for report in reports if report.outcomes]
    ok = bool(isolating) and not any(report.count("escaped") for report in isolating)
    if as_json:
        shown = [_shape(report) for report in reports]
        typer.echo(json.dumps({"ok": ok, "sandboxes": shown}, ensure_ascii=False))
    else:
        _print(reports, verbose=verbose)
    return 0 if ok else 1


async def _reports() -> list[Report]:
    return [await _proven(kind) for kind in await kinds()]


async def _proven(kind: Kind) -> Report:
    if not (kind.available and kind.isolates):
        return Report(kind=kind)
    with temporary_folder("proof") as folder:
        sandbox = open_sandbox(kind.name, folder / "run", terms=Terms(limits=LIMITS))
        try:
            await sandbox.prepare()
            outcomes = await attempt_all(sandbox, limits=LIMITS, acts={"git": work_in_repository})
        except SandboxError as error:
            return Report(kind=replace(kind, available=False, note=error.message))
        finally:
            await sandbox.destroy()
    return Report(kind=kind, outcomes=tuple(outcomes))


async def work_in_repository(sandbox: Sandbox) -> None:
    """Do what the agent does in the project's repository, whatever stands in its settings.

    Raises:
        GitError: git refused.
    """
    from kakite.agent.checkout import Checkout

    checkout = Checkout(sandbox, branch="main", author=("Kakite", "kakite@example.org"))
    base = await checkout.head()
    await checkout.diff(base)
    await checkout.commit("attempt", base)


def _shape(report: Report) -> dict[str, object]:
    states = {state: report.count(state) for state in ("held", "escaped", "untried")}
    return {**asdict(report.kind), **states, "attempts": [asdict(outcome) for outcome in report.outcomes]}


def _print(reports: Sequence[Report], *, verbose: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for report in reports:
        console.print(f"\n[bold]{report.kind.name}[/]: ", end="")
        console.print(_summary(report), markup=False)
        shown = [each for each in report.outcomes if verbose or each.state != "held"]
        if shown:
            _print_table(console, shown)
    if not verbose and any(report.count("held") for report in reports):
        console.print("\n--verbose lists every attempt and how it was held", style="dim")


def _summary(report: Report) -> str:
    if not report.outcomes:
        return report.kind.note
    told = f"{report.count('held')} of {len(report.outcomes)} attempts were held"
    untried = report.count("untried")
    return f"{told}, {untried} could not be tried" if untried else told


def _print_table(console: object, outcomes: Iterable[Outcome]) -> None:
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

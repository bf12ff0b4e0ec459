"""Which tests may be skipped where everything should be there: in CI, any other skip fails the run.

A skip says that something is missing on this machine. Nobody reads that in CI: a package that is renamed
would take dozens of tests with it, and all would stay green.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.lanes import NO_TIME, find_deadline

ALLOWED = (
    r"root may read everything",
    r"plain text has no form that could be broken",
    r"takes minutes; `make proof` does it",
    r"no real model: KAKITE_TEST_MODEL_URL is not set",
    r"`copilot` is not on the PATH, and too large to install for one test",
    r"root's processes are not counted; a test below does it as another user",
)
"""Reasons that are right in CI, which runs as root, asks no real model, and leaves the proofs to people."""
NO_CLIS = r"`(codex|claude|gemini|opencode|pi)` is not installed: `make clis` does it"
"""Right where ``KAKITE_CLIS=absent`` says so: they are 1.4 GB."""


class Skips:
    """A plugin that fails the run for skips whose reason is none of these, as whole texts."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = re.compile("|".join(f"(?:{each})" for each in allowed))
        self._others: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at a test's skip; with several processes, in the one that shares the tests out."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Look at a module's skip."""
        if report.skipped:
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = told.removeprefix("Skipped: ")
        if not self._allowed.fullmatch(reason):
            self._others.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run."""
        if self._others and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        if self._others:
            terminalreporter.section("skipped in CI for a reason that tests/skips.py does not list")
            for line in sorted(set(self._others)):
                terminalreporter.write_line(line)


def watcher(environ: Mapping[str, str]) -> Skips | None:
    """Return the plugin where this is CI (``CI`` is set); None on a person's machine."""
    if not environ.get("CI"):
        return None
    more = [NO_CLIS] if environ.get("KAKITE_CLIS") == "absent" else []
    more += [re.escape(NO_TIME)] if find_deadline(environ) else []
    return Skips((*ALLOWED, *more))

"""Which tests `make test` runs, and which wait for `make test-all`.

The quick lane has no test that carries one of the marks of ``LEFT_OUT``, and draws fewer examples a law. The
rest has all that the quick lane left out, and the laws again with the usual number of examples.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

LEFT_OUT = {
    "engine": "need root, and build and run containers",
    "browser": "need Chromium",
    "client": "need other people's programs from npm (`make clients`, `make clis`)",
    "docs": "hold the pages, their examples and their figures to the program",
    "slow": "take seconds each: servers, kills, whole tasks",
}
"""The marks that keep a test out of the quick lane, and why; the first that a test has is told."""
_USUAL = 100


def examples(usual: int) -> int:
    """Return how many examples a law draws that draws ``usual`` ones in `make test-all`."""
    return max(1, usual * settings().max_examples // _USUAL)


def add_options(parser: pytest.Parser) -> None:
    """Add ``--lane``."""
    parser.addoption(
        "--lane", choices=("all", "quick", "rest"), default="all", help="which tests run: tests/lanes.py"
    )


NO_TIME = "no time was left for it; without KAKITE_TESTS_UNTIL it runs"


def find_deadline(environ: Mapping[str, str]) -> Deadline | None:
    """Return the plugin where ``KAKITE_TESTS_UNTIL`` says when tests have to end."""
    until = environ.get("KAKITE_TESTS_UNTIL")
    return Deadline(float(until)) if until else None


class Deadline:
    """A plugin that skips each test that has not begun at a given time, in seconds since the epoch.

    CI is stopped after a while, and would then tell nothing of what it ran. Tests come in another order each
    time: what one slow run skips, the next ones run.
    """

    def __init__(self, at: float) -> None:
        self._at = at

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip the test, before its fixtures begin."""
        if time.time() > self._at:
            pytest.skip(NO_TIME)


class Lane:
    """A plugin that leaves out the tests of the other lane, and says at the end how many and why."""

    def __init__(self, name: str) -> None:
        self._is_quick = name == "quick"
        self._counts: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the items of this lane."""
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        self._counts.clear()
        for item in items:
            mark = next((mark for mark in LEFT_OUT if item.get_closest_marker(mark)), None)
            is_law = isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)
            if mark is None if self._is_quick else mark is not None or is_law:
                kept.append(item)
                continue
            left.append(item)
            if mark is not None:
                self._counts[mark] += 1
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that shares the tests out what was left out: it has collected none itself."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = dict(self._counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a process left out; each leaves out the same."""
        self._counts = Counter(getattr(node, "workeroutput", {}).get("left_out", {})) or self._counts

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what did not run, and how to run it."""
        if not self._is_quick or not self._counts:
            return
        terminalreporter.section("left out of `make test`; `make test-all` runs them")
        for mark, reason in LEFT_OUT.items():
            if self._counts[mark]:
                terminalreporter.write_line(f"{self._counts[mark]:5} tests {reason}")

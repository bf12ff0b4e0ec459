"""How the tests are shared out among processes."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("one")
def test_what_belongs_together_stays_in_one_process(request: pytest.FixtureRequest) -> None:
    """Else each process starts engines and builds images of its own, and nothing fails."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@one")  # type: ignore[reportUnknownMemberType] # pytest's node is untyped

"""What the tests of installing share."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.cli.program import environment
from tests.packaging.building import wheelhouse


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A folder with our wheel and all that it needs: nothing else is fetched from then on.

    Whoever uses it belongs to the group `engines`, whose tests one process does: it is filled once.
    """
    with wheelhouse(tmp_path_factory.mktemp("house")) as folder:
        yield folder


@pytest.fixture
def fresh(wheels: Path, tmp_path: Path) -> Mapping[str, str]:
    """The environment of somebody whose uv reaches nothing but a folder with wheels."""
    places = {f"UV_{name}_DIR": str(tmp_path / name) for name in ("CACHE", "TOOL", "TOOL_BIN")}
    return {
        **environment(tmp_path),
        **places,
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
    }

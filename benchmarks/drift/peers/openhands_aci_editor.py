"""`str_replace` of OpenHands' file editor, as its tool runs it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lines import serve_files
from openhands_aci.editor.editor import OHEditor

logging.disable()  # each edit is told in ten lines

if TYPE_CHECKING:
    from pathlib import Path


def edit(file: Path, search: str, new: str) -> None:
    OHEditor()(command="str_replace", path=str(file), old_str=search, new_str=new)


if __name__ == "__main__":
    serve_files(edit)

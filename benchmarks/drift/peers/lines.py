"""The JSON lines of ``kakite edit --jsonl`` around a peer's own function. Run an adapter as ``--command``."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

Replace = Callable[[str, str, str], str | None]
"""Takes text, SEARCH and REPLACE; returns the new text, or None for a refusal."""

EditFile = Callable[[Path, str, str], None]
"""Takes a file, SEARCH and REPLACE; changes the file, or raises for a refusal."""


def serve(replace: Replace) -> None:
    """Answer every line of standard input. Files are read and written as UTF-8, as the peers do it."""

    def replaced(data: bytes, search: str, new: str) -> bytes:
        text = replace(data.decode("utf-8"), search, new)
        if text is None:
            raise ValueError("refused")
        return text.encode()

    _serve(replaced)


def serve_files(edit: EditFile) -> None:
    """Answer every line of standard input with a peer that reads and writes the file itself."""
    with tempfile.TemporaryDirectory(prefix="drift-") as folder:
        file = Path(folder).resolve() / "file.txt"

        def edited(data: bytes, search: str, new: str) -> bytes:
            file.write_bytes(data)
            edit(file, search, new)
            return file.read_bytes()

        _serve(edited)


def _serve(change: Callable[[bytes, str, str], bytes]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        told = {"id": request.get("id")}
        data = base64.b64decode(request["text_b64"])
        try:
            for edit in request["edits"]:
                data = change(data, edit["search"], edit["replace"])
        except Exception as error:  # noqa: BLE001  # whatever a peer raises is its refusal
            told |= {"ok": False, "failures": [{"index": 0, "code": type(error).__name__}]}
        else:
            told |= {"ok": True, "text_b64": base64.b64encode(data).decode()}
        print(json.dumps(told), flush=True)

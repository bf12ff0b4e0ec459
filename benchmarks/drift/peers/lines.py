"""The JSON lines of ``kakite edit --jsonl`` around a peer's own function. Run an adapter as ``--command``."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable

Replace = Callable[[str, str, str], str | None]
"""Takes text, SEARCH and REPLACE; returns the new text, or None for a refusal."""


def serve(replace: Replace) -> None:
    """Answer every line of standard input. Files are read and written as UTF-8, as the peers do it."""
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), replace)), flush=True)


def _answer(request: dict[str, object], replace: Replace) -> dict[str, object]:
    data = base64.b64decode(str(request["text_b64"]))
    try:
        text: str | None = data.decode("utf-8")
        for edit in request["edits"]:
            text = None if text is None else replace(text, edit["search"], edit["replace"])
    except Exception as error:  # noqa: BLE001  # whatever a peer raises is its refusal
        return {
            "id": request.get("id"),
            "ok": False,
            "failures": [{"index": 0, "code": type(error).__name__}],
        }
    if text is None:
        return {"id": request.get("id"), "ok": False, "failures": [{"index": 0, "code": "refused"}]}
    return {"id": request.get("id"), "ok": True, "text_b64": base64.b64encode(text.encode()).decode()}

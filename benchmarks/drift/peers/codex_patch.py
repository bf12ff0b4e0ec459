"""codex's `apply_patch`, by the released program: `codex_patch.py FOLDER-OF-THE-PACKAGE`.

SEARCH and REPLACE become one hunk: the lines that both have are its context. A SEARCH that is a part of a
line has no form in a patch, so that the lines of the hunk are what it says.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

from lines import serve_files

PROGRAM = next(Path(sys.argv[1]).glob("node_modules/@openai/codex-*/vendor/*/bin/codex"))


def hunk(search: str, new: str) -> list[str]:
    """Return the lines of a hunk that makes REPLACE of SEARCH."""
    old, wanted = ([] if not text else text.removesuffix("\n").split("\n") for text in (search, new))
    lines: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, wanted, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [f" {line}" for line in old[a:b]]
        else:
            lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in wanted[c:d]]
    return lines


def edit(file: Path, search: str, new: str) -> None:
    head = ["*** Begin Patch", f"*** Update File: {file.name}", "@@"]
    patch = "\n".join([*head, *hunk(search, new), "*** End Patch"])
    environment = {"HOME": str(file.parent), "PATH": ""}
    subprocess.run(
        [PROGRAM, "--codex-run-as-apply-patch", patch],
        cwd=file.parent,
        env=environment,
        capture_output=True,
        timeout=30,
        check=True,
    )


if __name__ == "__main__":
    serve_files(edit)

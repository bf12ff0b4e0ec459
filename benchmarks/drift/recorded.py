"""Edits that models really sent, each with the file as it was.

    python benchmarks/drift/recorded.py FILE [--command "kakite edit --jsonl"] [--keep DIR]

FILE is JSON (`.json`, `.json.xz`): `{"about", "texts": {id: text}, "edits": […]}`. An edit has `id`, `of`,
`path`, `kind`, `text` (the id of the file's text), `search`, `replace`; `now` is what an engine did when the
file was made: `landed`, or the code of its refusal. `digest_right` and `digest_wrong` judge results: the
first 16 hex digits of their SHA-256. A result that is in neither is told as unjudged, for someone to look at.
`transcripts.py` makes such a file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from asking import here, program
from cases import Case

KINDS = {
    "exact1": "stands once, to the letter",
    "exactN": "stands several times",
    "drift": "stands nowhere to the letter",
    "same": "SEARCH is REPLACE",
}


@dataclass(frozen=True, slots=True)
class Recorded(Case):
    """An edit whose results were judged by hand."""

    id: str = ""
    now: str = ""
    digests_right: frozenset[str] = frozenset()
    digests_wrong: frozenset[str] = frozenset()

    def end(self, written: bytes | None) -> str:
        if written is None:
            return "right" if self.search == self.replace else "refused"
        digest = digest_of(written)
        if digest in self.digests_right or written in self.also:
            return "right"
        if written == self.text and self.search == self.replace:
            return "right"
        return "wrong" if digest in self.digests_wrong else "unjudged"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def read(file: Path) -> dict[str, Any]:
    """Return what a file of recorded edits holds."""
    with lzma.open(file) if file.suffix == ".xz" else file.open("rb") as stream:
        return json.load(stream)


def cases(found: dict[str, Any]) -> Iterator[tuple[str, list[Recorded]]]:
    """Yield the edits kind by kind."""
    for kind, words in KINDS.items():
        edits = [each for each in found["edits"] if each["kind"] == kind]
        if edits:
            yield words, [_case(each, found["texts"]) for each in edits]


def _case(edit: dict[str, Any], texts: dict[str, str]) -> Recorded:
    text = texts[edit["text"]]
    literal = text.replace(edit["search"], edit["replace"])
    lines = ("\n" + text).count("\n" + edit["search"])
    once = edit["kind"] == "exact1" and lines == text.count(edit["search"]) == 1
    return Recorded(
        text.encode(),
        edit["search"],
        edit["replace"],
        None,
        also=(literal.encode(),) if once else (),
        about=Path(edit["path"]).suffix.removeprefix("."),
        id=edit["id"],
        now=edit.get("now", ""),
        digests_right=frozenset(edit.get("digest_right", ())),
        digests_wrong=frozenset(edit.get("digest_wrong", ())),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--command", default="")
    parser.add_argument("--keep", type=Path, help="keep results that are wrong or unjudged in this folder")
    asked = parser.parse_args()
    ask = program(shlex.split(asked.command)) if asked.command else here()
    wrong = 0
    for words, edits in cases(read(asked.file)):
        ends: Counter[str] = Counter()
        told: list[str] = []
        for edit in edits:
            answer = ask(edit)
            end = "wrong" if answer.code.startswith("crash") else edit.end(answer.written)
            ends[end] += 1
            ends["shows a suggestion"] += answer.suggested is not None
            if end in {"wrong", "unjudged"}:
                told.append(f"{edit.id}: {end} {answer.code}".rstrip())
                _keep(asked.keep, edit, end, answer.written)
            elif edit.now and (edit.now == "landed") != (answer.written is not None):
                now = answer.code or "landed"
                told.append(f"{edit.id}: {edit.now} when it was recorded, now {now}")
        wrong += ends["wrong"]
        print(f"{words}, {len(edits)} edits:", ", ".join(f"{end} {ends[end]}" for end in sorted(ends)))
        print(*(f"  {line}" for line in told), sep="\n")
    return 1 if wrong else 0


def _keep(folder: Path | None, edit: Recorded, end: str, written: bytes | None) -> None:
    if folder is None or written is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    data = {
        "id": edit.id,
        "search": edit.search,
        "replace": edit.replace,
        "digest": digest_of(written),
        "written": written.decode("utf-8", "backslashreplace"),
        "text": edit.text.decode("utf-8", "backslashreplace"),
    }
    file = folder / f"{end}-recorded-{edit.id}.json"
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

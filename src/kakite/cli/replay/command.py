"""``kakite edit replay``: reads transcripts, and prints a page of figures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.replay.counts import OUTCOMES, ClientCounts
from kakite.cli.replay.log_files import CLIENTS, LineCounts, find_logs, read_logs
from kakite.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from kakite.cli.replay.counts import Outcome
    from kakite.cli.replay.recorded_edit import RecordedEdit

_TOLD: Mapping[Outcome, str] = {
    "same": "the same text",
    "different": "another text",
    "landed": "landed; nothing to compare with",
    "suggested": "refused, with a suggestion",
    "refused": "refused",
    "text_unknown": "text unknown",
}


@dataclass(slots=True)
class _Report:
    """All figures; neither a path nor a text of the person."""

    looked_in: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """Client, place as a person writes it, and the number of transcripts there."""
    clients: dict[str, ClientCounts] = field(default_factory=dict[str, ClientCounts])
    read: LineCounts = field(default_factory=LineCounts)


def replay(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOG]...",
            help="Transcripts, or folders of them. Default: where each client keeps its own.",
        ),
    ] = None,
    html: Annotated[
        str, typer.Option("--html", metavar="FILE", help="Write the figures as one HTML page into this file.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document to standard output.")
    ] = False,
) -> None:
    """Read the edits in your transcripts of Claude Code, codex, pi, opencode and aider, and count how many
    Kakite would apply.

    Kakite only reads these files and sends nothing; it writes no file but that of --html. Its figures contain
    no paths or texts.
    """
    from kakite.cli.console import print_json

    report = _Report()
    paths = find_logs(logs) if logs else _find_own(report)
    _count(paths, report)
    if html:
        _write_page(html, report)
    if as_json:
        print_json(_to_json(report))
    else:
        typer.echo(_format(report))


def _find_own(report: _Report) -> list[Path]:
    paths: list[Path] = []
    for client in CLIENTS:
        place, folder = client.get_folder(os.environ)
        found = find_logs([str(folder)]) if folder.is_dir() else []
        report.looked_in.append((client.name, place, len(found)))
        paths += found
    return paths


def _count(paths: list[Path], report: _Report) -> None:
    seen: set[bytes] = set()
    for path in paths:
        for client, edits in read_logs(path, report.read):
            counts = report.clients.setdefault(client.name, ClientCounts())
            counts.logs += 1
            _count_edits(counts, edits, seen)


def _count_edits(counts: ClientCounts, edits: Iterator[RecordedEdit], seen: set[bytes]) -> None:
    for edit in edits:
        key = hashlib.sha256(edit.key.encode("utf-8", "surrogatepass")).digest()
        if key in seen:
            counts.repeated += 1
        else:
            seen.add(key)
            counts.add(edit)


def _to_json(report: _Report) -> dict[str, object]:
    return {
        "clients": [
            {
                "client": name,
                "logs": counts.logs,
                "applied": {each: counts.applied[each] for each in OUTCOMES},
                "failed": {each: counts.failed[each] for each in OUTCOMES},
                "not_tried": counts.not_tried,
                "repeated": counts.repeated,
            }
            for name, counts in report.clients.items()
        ],
        "looked_in": [
            {"client": name, "folder": place, "logs": number} for name, place, number in report.looked_in
        ],
        "read": asdict(report.read),
    }


def _write_page(file: str, report: _Report) -> None:
    from kakite.cli.replay.page import build_page

    page = build_page(report.clients.items(), _TOLD, _format_places(report), _format_read(report))
    try:
        Path(file).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"`{file}` cannot be written: {error.strerror}", hint="name a file in a folder that you may write"
        ) from error


def _format(report: _Report) -> str:
    rows = _format_places(report)
    for name, counts in report.clients.items():
        rows += ["", *_format_client(name, counts)]
    return "\n".join([*rows, "", *_format_read(report)]).lstrip("\n")


def _format_places(report: _Report) -> list[str]:
    return [f"{name}: {number:,} transcripts in {place}" for name, place, number in report.looked_in]


def _format_read(report: _Report) -> list[str]:
    read = report.read
    rows = [f"read: {read.lines:,} lines"]
    for number, what in (
        (read.bad_lines, "lines that are no JSON objects were passed over"),
        (read.long_lines, "lines were too long and were passed over"),
        (read.unknown_files, "files are no transcripts of a client that Kakite knows"),
        (read.unreadable_files, "files could not be read to their end"),
    ):
        rows += [f"{number:,} {what}"] if number else []
    return rows


def _format_client(name: str, counts: ClientCounts) -> list[str]:
    return [
        f"{name}: {counts.logs:,} transcripts",
        *_format_outcomes("the client applied", counts.applied),
        *_format_outcomes("the client found no place for", counts.failed),
        f"  stopped for another reason: {counts.not_tried:,}, repeated elsewhere: {counts.repeated:,}",
    ]


def _format_outcomes(title: str, outcomes: Counter[Outcome]) -> list[str]:
    rows = [f"  {title} {outcomes.total():,} edits; Kakite:"] if outcomes.total() else [f"  {title} no edit"]
    return rows + [f"{outcomes[each]:>9,}  {_TOLD[each]}" for each in OUTCOMES if outcomes[each]]

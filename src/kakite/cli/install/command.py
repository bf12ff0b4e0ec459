"""``kakite install``: adds Kakite to a coding agent or an editor, and takes it out again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.exit_codes import INTERRUPTED
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.cli.install.plan import Plan, PlannedFile

Client = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT",
        help="Which one: claude (Claude Code), codex, copilot (Copilot CLI), cursor, gemini, opencode, pi, "
        "vscode or zed.",
    ),
]
ScopeOption = Annotated[
    str,
    typer.Option(
        "--scope", metavar="user|project", help="For all your folders (user), or for this one (project)."
    ),
]
Uninstall = Annotated[bool, typer.Option("--uninstall", help="Remove exactly what the installation wrote.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what Kakite would write, and write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
KeepBuiltIn = Annotated[
    bool,
    typer.Option("--keep-built-in", help="Add only the server; the client keeps its own edit tools."),
]
Host = Annotated[
    bool,
    typer.Option(
        "--host", help="Also offer the MCP servers of your projects, and ask you before each call (pi only)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


def install(
    client: Client,
    scope: ScopeOption = "user",
    uninstall: Uninstall = False,
    keep_built_in: KeepBuiltIn = False,
    host: Host = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Add Kakite to a coding agent or an editor: it shows what it will write, and asks."""
    from kakite.cli.console import print_json
    from kakite.cli.install.clients import Place, find_install_client
    from kakite.cli.install.plan import carry_out, plan_install, plan_uninstall

    if scope not in {"user", "project"}:
        raise UsageError(f"there is no scope `{scope}`", hint="give --scope user or --scope project")
    place = Place(
        client=find_install_client(client),
        scope="project" if scope == "project" else "user",
        project=Path.cwd(),
        environ=os.environ,
    )
    plan = plan_uninstall(place) if uninstall else plan_install(place, steers=not keep_built_in, hosts=host)
    diffs = {each.path: _format_diff(each) for each in plan.changes}
    if not as_json or not (yes or dry_run):  # what somebody is asked about, they must see
        _show(diffs, err=as_json)
    _tell_notes(plan)
    if plan.changes and not dry_run:
        if not (yes or _confirm(len(plan.changes))):
            typer.echo("nothing was changed", err=True)
            raise typer.Exit(1)
        carry_out(plan, os.environ)
    if as_json:
        files = [
            {"path": str(each.path), "change": _name_change(each), "diff": diffs[each.path]}
            for each in plan.changes
        ]
        print_json({"ok": True, "client": place.client, "scope": scope, "written": not dry_run,
                    "files": files, "notes": list(plan.notes)})  # fmt: skip
    _tell_end(plan, dry_run=dry_run)


def _show(diffs: dict[Path, str], *, err: bool) -> None:
    from kakite.terminal_text import escape_control

    for diff in diffs.values():
        typer.echo(escape_control(diff.replace("\r\n", "\n")), nl=False, err=err)


def _tell_notes(plan: Plan) -> None:
    from kakite.terminal_text import escape_control

    for path in plan.links:
        typer.echo(escape_control(f"`{path}` is a link; `{path.resolve()}` is written"), err=True)
    for note in plan.notes:
        typer.echo(escape_control(note), err=True)


def _format_diff(planned: PlannedFile) -> str:
    """Return what changes as a unified diff, in which secrets that stand near are masked."""
    from kakite.edit import unified_diff
    from kakite.redaction import find_secret_spans, replace_spans

    name = str(planned.path).lstrip("/")
    text = (planned.before or b"").decode("utf-8")
    old = "/dev/null" if planned.before is None else name
    diff = unified_diff(planned.changes, text, path=old, to="/dev/null" if planned.after is None else name)
    return replace_spans(diff, find_secret_spans(diff), lambda _: "***")


def _name_change(planned: PlannedFile) -> str:
    if planned.before is None:
        return "created"
    return "removed" if planned.after is None else "changed"


def _confirm(count: int) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "nothing was written: without a terminal Kakite cannot ask you first",
            hint="give --yes to write without being asked, or --dry-run to see what it would be",
        )
    try:
        return typer.confirm(f"Write {count} file{'' if count == 1 else 's'}?", err=True)
    except typer.Abort as error:
        raise typer.Exit(INTERRUPTED) from error


def _tell_end(plan: Plan, *, dry_run: bool) -> None:
    if not plan.changes:
        typer.echo("nothing to do", err=True)
    elif dry_run:
        typer.echo("nothing was written (--dry-run)", err=True)
    else:
        typer.echo("done; start the client anew", err=True)

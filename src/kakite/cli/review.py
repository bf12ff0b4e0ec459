"""``kakite review``: a model reviews a change and changes nothing; what it says is checked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.exit_codes import run_until_signal
from kakite.cli.options import GivenFlags, Json, add_setting_options
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.agent.forges.base import Repository
    from kakite.agent.forges.reviews import ReviewApi, ReviewTarget
    from kakite.agent.review.findings import CheckedFinding, DroppedFinding, Finding, Review
    from kakite.agent.review.source import ReviewedChange
    from kakite.agent.session.prepared import PreparedSession
    from kakite.cli.settings import Settings

Diff = Annotated[
    str,
    typer.Option(
        "--diff",
        metavar="FILE",
        help="Review this unified diff instead; the files must be as it leaves them. - means standard input.",
    ),
]
Repo = Annotated[
    Path, typer.Option("--repo", "-C", metavar="DIR", help="The repository. Default: this folder.")
]
Base = Annotated[
    str, typer.Option(metavar="REF", help="What the branch is compared with. Default: the default branch.")
]


PullRequest = Annotated[
    int | None, typer.Option("--pr", metavar="NUMBER", help="Review a pull request of --forge instead.")
]
Place = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--forge",
        metavar="KIND PLACE",
        help="Where the pull request is: github OWNER/NAME or gitlab GROUP/NAME.",
    ),
]
ForgeUrl = Annotated[str, typer.Option(help="Your own server: the address of GitHub's API, or of GitLab.")]
Post = Annotated[
    bool,
    typer.Option("--post", metavar="", help="Write the review on the pull request, once for each commit."),
]


@add_setting_options(approve=None, setup=None, network=None, hosts=None, max_turns=None)
def review(
    branch: Annotated[str, typer.Argument(help="The branch or commit. Default: what is checked out.")] = "",
    *,
    diff: Diff = "",
    repo: Repo = Path(),
    base: Base = "",
    pr: PullRequest = None,
    forge: Place = None,
    forge_url: ForgeUrl = "",
    post: Post = False,
    given: GivenFlags,
    as_json: Json = False,
) -> None:
    """Review a change: findings, and suggestions that apply exactly. Changes nothing, runs no command."""
    from kakite.cli.settings import load_settings

    folder = repo.resolve()
    if not folder.is_dir():
        raise UsageError(f"`{repo}` is not a folder", code="folder_missing")
    if pr is not None:
        if branch or diff or base:
            raise UsageError("--pr says all of the change", hint="leave the branch, --diff and --base out")
        review_pull_request(pr, open_review_api(forge, forge_url), given, post=post, as_json=as_json)
        return
    if post or forge:
        raise UsageError("--post and --forge need --pr NUMBER")
    settings = load_settings(given, repository=str(folder))
    with _open_change(folder, branch, diff, base) as change:
        found = _ask_model(settings, change)
    _print_review(found, change, as_json=as_json)


def open_review_api(forge: tuple[str, str] | None, url: str) -> ReviewApi:
    """Return the API of a forge that reviews can be written to.

    Raises:
        UsageError: there is none, or a token or library is missing.
    """
    from kakite.agent.forges.factory import open_github_api, open_gitlab_api

    match forge:
        case ("github", path):
            return open_github_api(path, os.environ, api_url=url)
        case ("gitlab", path):
            return open_gitlab_api(path, os.environ, url=url)
        case _:
            raise UsageError(
                "--pr needs --forge github OWNER/NAME or gitlab GROUP/NAME",
                hint="elsewhere, review the branch, or its diff with --diff",
            )


def review_pull_request(number: int, api: ReviewApi, given: GivenFlags, *, post: bool, as_json: bool) -> None:
    """Review a pull request and print that; with ``post`` also write it there, unless this head has one."""
    from kakite.agent.forges.reviews import has_review
    from kakite.agent.review.source import open_pull_request
    from kakite.cli.settings import load_settings

    async def look_up() -> tuple[ReviewTarget, Repository, bool]:
        target = await api.fetch_review_target(number)
        return target, await api.fetch_repository(), post and await has_review(api, target)

    target, repository, is_reviewed = asyncio.run(look_up())
    if is_reviewed:
        typer.echo(f"{target.head[:12]} of #{number} has a review of Kakite already", err=True)
        if as_json:
            typer.echo(json.dumps({"head": target.head, "posted": False}))
        return
    settings = load_settings(given, repository=repository.address)
    with open_pull_request(target, repository, os.environ) as change:
        found = _ask_model(settings, change)
    address = asyncio.run(_post(api, target, found, change)) if post else None
    _print_review(found, change, as_json=as_json, posted=address)


async def _post(api: ReviewApi, target: ReviewTarget, found: Review, change: ReviewedChange) -> str | None:
    from kakite.agent.forges.reviews import put_review
    from kakite.agent.review.comments import format_review_text, to_comments
    from kakite.redaction import build_redaction

    redact = build_redaction(os.environ).redact
    text = format_review_text(found, change.diff, redact)
    return await put_review(api, target, text, to_comments(found, change.diff, redact, api.format_suggestion))


@contextmanager
def _open_change(folder: Path, branch: str, diff: str, base: str) -> Generator[ReviewedChange]:
    from kakite.agent.review.source import open_branch, read_diff

    if not diff:
        with open_branch(folder, branch, base, os.environ) as change:
            yield change
        return
    if branch or base:
        raise UsageError("--diff says all of the change", hint="leave the branch and --base out")
    yield read_diff(_read_text(diff), folder)


def _read_text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"`{name}` cannot be read: {error.strerror}", code="bad_diff") from error
    return data.decode("utf-8", "surrogateescape")


def _ask_model(settings: Settings, change: ReviewedChange) -> Review:
    """Return what holds of the model's answer.

    Raises:
        AnswerError: it does not fit the form, also after it was asked for again.
        KakiteError: the model has not answered (``review_unfinished``), or something outside failed.
    """
    from kakite.cli.session_setup import prepare_session

    typer.echo(f"reviews {_count(len(change.diff.files), 'file')}…", err=True)
    settings = settings.model_copy(update={"network": "off", "hosts": ()})
    from kakite.host import DenyingApprover

    prepared = prepare_session(
        settings, change.folder, approver=DenyingApprover(), listener=lambda _event: None, mode="plan"
    )
    record = prepared.deps.record
    try:
        with record.lock():
            return asyncio.run(run_until_signal(_converse(_close_off(prepared, change), change)))
    finally:
        record.remove()


def _close_off(prepared: PreparedSession, change: ReviewedChange) -> PreparedSession:
    """Return a session that nothing of the reviewed files steers, and that reaches nothing else."""
    tooling = replace(prepared.deps.tooling, servers=())
    context = replace(prepared.context, instructions=change.rules, nested=(), skills=(), commands=())
    return replace(
        prepared,
        deps=replace(prepared.deps, tooling=tooling, builtin=(), skills=""),
        context=context,
        checkpoints=None,
        committer=None,
        hooks=None,
    )


async def _converse(prepared: PreparedSession, change: ReviewedChange) -> Review:
    from kakite.agent.review.findings import SCHEMA, check_findings, parse_findings
    from kakite.agent.review.prompt import build_review_prompt
    from kakite.agent.session.json_answer import repair_answer
    from kakite.models.messages import UserMessage

    async with prepared.open() as session:
        result = await session.prompt(UserMessage(text=build_review_prompt(change)))
        answer: object = None
        if result.reason == "answered":
            result, answer = await repair_answer(session, result, SCHEMA)
        if result.reason != "answered":
            raise KakiteError(f"the review has not ended: {result.reason}", code="review_unfinished")
        summary, findings = parse_findings(answer)
        return check_findings(summary, findings, change.diff, change.read)


def _print_review(found: Review, change: ReviewedChange, *, as_json: bool, posted: str | None = None) -> None:
    from kakite.cli.console import escape_control, print_json

    if as_json:
        print_json({**to_json(found, change), "posted": posted})
        return
    for line in format_review(found):
        typer.echo(escape_control(line))
    if posted:
        typer.echo(f"posted: {posted}", err=True)
    for each in found.dropped:
        what = "there is no such file" if each.reason == "file_missing" else "there are no such lines"
        typer.echo(
            escape_control(f"left out: {_place(each.finding)}: {each.finding.title} ({what})"), err=True
        )


def format_review(found: Review) -> Generator[str]:
    """Yield the lines for a person: the worst finding first."""
    from kakite.agent.review.findings import RefusedSuggestion, Suggestion

    yield found.summary
    for each in found.findings:
        elsewhere = "" if each.in_diff else "  (outside of the change)"
        yield f"\n{each.finding.severity}  {_place(each.finding)}  {each.finding.title}{elsewhere}"
        yield from (f"  {line}".rstrip() for line in each.finding.why.split("\n"))
        if isinstance(each.suggestion, Suggestion):
            yield "  suggestion, which applies:"
            yield from (f"    {line}" for line in each.suggestion.diff.rstrip("\n").split("\n"))
        elif isinstance(each.suggestion, RefusedSuggestion):
            yield f"  suggestion refused ({each.suggestion.code}): {each.suggestion.message}"
    yield f"\n{_count(len(found.findings), 'finding')}"


def to_json(found: Review, change: ReviewedChange) -> dict[str, object]:
    """Return the document of ``--json``."""
    return {
        "base": change.base or None,
        "head": change.head or None,
        "summary": found.summary,
        "findings": [_to_finding_json(each) for each in found.findings],
        "dropped": [_to_dropped_json(each) for each in found.dropped],
    }


def _to_finding_json(checked: CheckedFinding) -> dict[str, object]:
    from kakite.agent.review.findings import Suggestion

    said = checked.suggestion
    suggestion: dict[str, object] | None = None
    if isinstance(said, Suggestion):
        suggestion = {
            "applies": True,
            "applicable": checked.is_applicable,
            "start_line": said.start,
            "end_line": said.end,
            "lines": list(said.lines),
            "diff": said.diff,
        }
    elif said is not None:
        suggestion = {"applies": False, "applicable": False, "code": said.code, "message": said.message}
    return {**_to_place_json(checked.finding), "in_diff": checked.in_diff, "suggestion": suggestion}


def _to_dropped_json(dropped: DroppedFinding) -> dict[str, object]:
    return {**_to_place_json(dropped.finding), "reason": dropped.reason}


def _to_place_json(finding: Finding) -> dict[str, object]:
    return {
        "path": finding.path,
        "start_line": finding.start,
        "end_line": finding.end,
        "severity": finding.severity,
        "title": finding.title,
        "why": finding.why,
    }


def _place(finding: Finding) -> str:
    lines = f"{finding.start}" if finding.start == finding.end else f"{finding.start}-{finding.end}"
    return f"{finding.path}:{lines}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"

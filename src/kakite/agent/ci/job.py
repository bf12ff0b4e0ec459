"""Reads from a job's environment what Kakite is to do there, and checks who started the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from kakite.agent.forges.base import Forge
from kakite.errors import KakiteError, UsageError

DEFAULT_BRANCH: Final = "HEAD"
"""What git calls the default branch of a remote repository."""
_REVIEWED: Final = frozenset(("pull_request", "pull_request_target"))
_WORKED: Final = frozenset(
    ("issues", "issue_comment", "pull_request_review", "pull_request_review_comment", "schedule")
) | {"workflow_dispatch"}
_WORKED_ON_GITLAB: Final = frozenset(("schedule", "web", "api", "trigger"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CiJob:
    """What a job is for."""

    kind: Literal["github", "gitlab"]
    path: str
    """Of the repository: ``owner/name``."""
    url: str
    """The address of GitHub's API, or of GitLab."""
    actors: tuple[str, ...]
    """Who started the job, and who started it again."""
    pull_request: int | None
    """The one to review; None: the issues that wait are worked on."""
    base: str
    """The reference whose settings count: never that of the pull request's own branch."""


def read_job(environ: Mapping[str, str]) -> CiJob:
    """Return what the job that this process runs in is for.

    Raises:
        UsageError: it is no job (``ci_missing``), its environment is not whole (``ci_environment``), or
            Kakite has no work for its event (``ci_event``).
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        return _read_github_job(environ)
    if environ.get("GITLAB_CI") == "true":
        return _read_gitlab_job(environ)
    raise UsageError(
        "this is no job of GitHub Actions or GitLab CI",
        hint="elsewhere: `kakite review` for a pull request, `kakite agent worker` for issues",
        code="ci_missing",
    )


async def check_actors(forge: Forge, job: CiJob) -> None:
    """Refuse a job that somebody without write access started.

    Raises:
        KakiteError: they did (``actor_refused``).
        ForgeError: the forge does not tell.
    """
    for actor in job.actors:
        if not await forge.can_write(actor):
            raise KakiteError(
                f"`{actor}` has no write access to `{job.path}`, so Kakite does nothing",
                hint="somebody with write access can start the job: with a label, a comment, or by hand",
                code="actor_refused",
            )


def _read_github_job(environ: Mapping[str, str]) -> CiJob:
    event = _require(environ, "GITHUB_EVENT_NAME")
    number: int | None = None
    base = DEFAULT_BRANCH
    if event in _REVIEWED:
        number, base = _read_pull_request(_read_event(Path(_require(environ, "GITHUB_EVENT_PATH"))))
    elif event not in _WORKED:
        raise _build_event_error(event, sorted(_REVIEWED | _WORKED))
    # Who runs a job again is another one than who started it first.
    actors = (_require(environ, "GITHUB_ACTOR"), environ.get("GITHUB_TRIGGERING_ACTOR", ""))
    return CiJob(
        kind="github",
        path=_require(environ, "GITHUB_REPOSITORY"),
        url=_require(environ, "GITHUB_API_URL"),
        actors=tuple(dict.fromkeys(filter(None, actors))),
        pull_request=number,
        base=base,
    )


def _read_gitlab_job(environ: Mapping[str, str]) -> CiJob:
    source = _require(environ, "CI_PIPELINE_SOURCE")
    number: int | None = None
    base = DEFAULT_BRANCH
    if source == "merge_request_event":
        number = _parse_number(_require(environ, "CI_MERGE_REQUEST_IID"))
        base = f"refs/heads/{_require(environ, 'CI_MERGE_REQUEST_TARGET_BRANCH_NAME')}"
    elif source not in _WORKED_ON_GITLAB:
        raise _build_event_error(source, ["merge_request_event", *sorted(_WORKED_ON_GITLAB)])
    return CiJob(
        kind="gitlab",
        path=_require(environ, "CI_PROJECT_PATH"),
        url=_require(environ, "CI_SERVER_URL"),
        actors=(_require(environ, "GITLAB_USER_LOGIN"),),
        pull_request=number,
        base=base,
    )


def _read_event(path: Path) -> Mapping[str, Any]:
    try:
        event: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _build_variable_error("GITHUB_EVENT_PATH", "names no file with an event") from error
    if not isinstance(event, dict):
        raise _build_variable_error("GITHUB_EVENT_PATH", "names no file with an event")
    return cast("dict[str, Any]", event)


def _read_pull_request(event: Mapping[str, Any]) -> tuple[int, str]:
    try:
        request = event["pull_request"]
        return _parse_number(str(request["number"])), f"refs/heads/{request['base']['ref']}"
    except (KeyError, TypeError) as error:
        raise _build_variable_error("GITHUB_EVENT_PATH", "names an event without a pull request") from error


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise _build_variable_error("the pull request", f"has no number, but `{text[:40]}`")
    return int(text)


def _require(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name, ""):
        return value
    raise _build_variable_error(name, "is not set")


def _build_variable_error(name: str, what: str) -> UsageError:
    return UsageError(
        f"the job's environment is not whole: {name} {what}",
        hint="run this in a job of the forge, which sets it",
        code="ci_environment",
    )


def _build_event_error(event: str, known: list[str]) -> UsageError:
    return UsageError(
        f"Kakite has nothing to do for the event `{event}`",
        hint=f"start the job for one of {', '.join(known)}",
        code="ci_event",
    )

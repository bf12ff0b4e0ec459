"""What a job is for, read from its environment: whatever stands there, it is a job or is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.ci.job import DEFAULT_BRANCH, CiJob, read_job
from kakite.errors import UsageError

GITLAB = {
    "GITLAB_CI": "true",
    "GITLAB_USER_LOGIN": "ann",
    "CI_SERVER_URL": "https://gitlab.example",
    "CI_PROJECT_PATH": "team/app",
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
}
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["pull_request", "number", "base", "ref", "head"]), inner)
    ),
    max_leaves=8,
)


def github(folder: Path, event: str, told: Any) -> dict[str, str]:
    (folder / "event.json").write_text(json.dumps(told), encoding="utf-8")
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTOR": "ann",
        "GITHUB_TRIGGERING_ACTOR": "bob",
        "GITHUB_REPOSITORY": "team/app",
        "GITHUB_API_URL": "https://api.github.example",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("event")


@given(told=JSON)
def test_an_event_is_a_pull_request_of_its_base_or_refused(folder: Path, told: Any) -> None:
    environ = github(folder, "pull_request_target", told)
    job, code = None, ""
    try:
        job = read_job(environ)
    except UsageError as error:
        code = error.code
    if job is None:
        assert code == "ci_environment"
        return
    request = told["pull_request"]
    assert (job.pull_request, job.base) == (int(request["number"]), f"refs/heads/{request['base']['ref']}")


@given(kept=st.sets(st.sampled_from(sorted(GITLAB))), number=st.sampled_from(["7", "", "-7", "seven", "٧"]))
def test_a_job_that_lacks_a_variable_is_refused(kept: set[str], number: str) -> None:
    environ = {name: GITLAB[name] for name in kept} | {"CI_MERGE_REQUEST_IID": number}
    if kept | {"CI_MERGE_REQUEST_IID"} == set(GITLAB) and number == "7":
        assert read_job(environ).pull_request == 7
        return
    with pytest.raises(UsageError) as refused:
        read_job(environ)
    assert refused.value.code == ("ci_environment" if "GITLAB_CI" in kept else "ci_missing")


def test_everybody_who_started_the_job_is_an_actor_and_the_head_is_never_the_base(folder: Path) -> None:
    told = {"pull_request": {"number": 7, "base": {"ref": "main"}, "head": {"ref": "topic"}}}
    expected = CiJob(
        kind="github",
        path="team/app",
        url="https://api.github.example",
        actors=("ann", "bob"),
        pull_request=7,
        base="refs/heads/main",
    )
    assert read_job(github(folder, "pull_request", told)) == expected
    issues = read_job(github(folder, "issues", told))
    assert (issues.pull_request, issues.base) == (None, DEFAULT_BRANCH)


@pytest.mark.parametrize(
    ("change", "code"),
    [({"CI_PIPELINE_SOURCE": "push"}, "ci_event"), ({"GITLAB_CI": "", "GITHUB_ACTIONS": "1"}, "ci_missing")],
)
def test_what_is_nothing_for_kakite_is_refused(change: Mapping[str, str], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_job({**GITLAB, **change})
    assert refused.value.code == code

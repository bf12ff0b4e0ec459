"""A review: each side reports findings alone, then all judge each one; and the files of a branch."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate import rounds
from kakite.debate.answers import Answer, Finding, FindingVerdict, Judgement, read_block
from kakite.debate.files import read_review_context, take_snapshot
from kakite.debate.findings import compute_support, list_findings
from kakite.debate.mcp.results import build_result
from kakite.debate.model import Debate, DebateError
from kakite.debate.rounds import next_requests
from kakite.debate.transcript.html import render_html
from kakite.debate.transcript.markdown import render_markdown
from kakite.debate.transcript.model import build_transcript
from tests.debate.arguing import CLAUDE, CODEX, THIRD, answer, answered, terms

SIDES = ("codex", "claude", "third")
JUDGEMENTS: tuple[Judgement, ...] = ("confirm", "reject", "unsure")
LOCK = Finding(file="a.py", line=3, severity="high", problem="The lock is never released.", fix="Use with.")
NAME = Finding(file="b.py", severity="low", problem="The name lies.")


def reviewed(first: dict[str, tuple[Finding, ...]]) -> Debate:
    """Return a review in which each side has reported these."""
    begun = rounds.begin("Review it.", replace(terms(CODEX, CLAUDE, THIRD), review=True))
    return answered(begun, lambda side: answer("I looked.", findings=first.get(side, ())))


def judged(debate: Debate, said: dict[str, dict[int, Judgement]]) -> Debate:
    def say(side: str) -> Answer:
        verdicts = tuple(
            FindingVerdict(on=number, opinion=opinion, reason=f"{side} looked")
            for number, opinion in said.get(side, {}).items()
        )
        return answer("I looked again.", support=verdicts)

    return answered(debate, say)


@given(
    st.fixed_dictionaries(
        {side: st.lists(st.sampled_from([LOCK, NAME]), unique=True).map(tuple) for side in SIDES}
    ),
    st.fixed_dictionaries(
        {side: st.dictionaries(st.integers(1, 3), st.sampled_from(JUDGEMENTS)) for side in SIDES}
    ),
)
def test_each_finding_has_whom_it_convinces_and_none_is_lost(
    first: dict[str, tuple[Finding, ...]], said: dict[str, dict[int, Judgement]]
) -> None:
    debate = judged(reviewed(first), said)
    found = compute_support(debate)
    assert {each.finding for each in found} == {finding for each in first.values() for finding in each}
    assert len({each.number for each in found}) == len(found)
    worth = [len(each.supported_by) - len(each.rejected_by) for each in found]
    assert worth == sorted(worth, reverse=True)
    for each in found:
        for side in SIDES:
            told = said[side].get(each.number, "confirm" if each.finding in first[side] else None)
            assert (side in each.supported_by, side in each.rejected_by) == (
                told == "confirm",
                told == "reject",
            )


def test_numbers_stay_when_more_is_found() -> None:
    debate = reviewed({"codex": (NAME,)})
    debate = answered(debate, lambda side: answer("More.", findings=(LOCK,) if side == "third" else ()))
    found = list_findings(debate, len(debate.rounds) + 1)
    assert [(each.number, each.finding, each.authors) for each in found] == [
        (1, NAME, ("codex",)),
        (2, LOCK, ("third",)),
    ]


def test_all_are_asked_for_findings_and_then_to_judge_each_without_names() -> None:
    blind = next_requests(rounds.begin("Review it.", replace(terms(CODEX, CLAUDE), review=True)))
    assert all('"findings"' in ask.prompt and '"support"' not in ask.prompt for ask in blind)
    mine = replace(LOCK, problem="Claude here. The lock is never released.")
    for ask in next_requests(reviewed({"claude": (mine,)})):
        assert "F1 (high) a.py:3: The lock is never released. Use with." in ask.prompt
        assert '"support"' in ask.prompt
        assert "claude" not in ask.prompt.casefold()
    other = next_requests(answered(rounds.begin("Why?", terms(CODEX, CLAUDE))))
    assert not any("findings" in ask.prompt for ask in other)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (
            [{"file": "a.py", "line": 3, "severity": "high", "problem": "x", "fix": "y"}],
            ("a.py", 3, "high", "y"),
        ),
        ([{"file": "a.py:3", "severity": "Critical", "problem": "x"}], ("a.py", 3, "high", "")),
        ([{"file": "a.py", "line": "3-5", "problem": "x"}], ("a.py", 3, "medium", "")),
        (["x"], ("", None, "medium", "")),
    ],
)
def test_findings_are_read_leniently(said: object, read: tuple[object, ...]) -> None:
    (found,) = read_block(json.dumps({"findings": said})).findings
    assert (found.file, found.line, found.severity, found.fix) == read
    assert found.problem == "x"


@pytest.mark.parametrize("said", [None, "x", [{}], [{"file": "a.py"}], {"a": 1}, [None]])
def test_what_is_no_finding_is_none(said: object) -> None:
    assert read_block(json.dumps({"claim": "x", "findings": said})).findings == ()


def test_support_is_read_leniently() -> None:
    said = {
        "F1": {"verdict": "Confirm", "reason": "r"},
        "2": "reject",
        "F3": "perhaps",
        "x": "confirm",
        "F0": "no",
    }
    assert [
        (each.on, each.opinion, each.reason) for each in read_block(json.dumps({"support": said})).support
    ] == [
        (1, "confirm", "r"),
        (2, "reject", ""),
    ]


def test_findings_are_told_everywhere_with_their_support() -> None:
    debate = judged(reviewed({"codex": (LOCK,)}), {"claude": {1: "confirm"}, "third": {1: "reject"}})
    told = build_transcript(debate)
    (found,) = told["findings"]
    assert (found["supported_by"], found["rejected_by"]) == (["codex", "claude"], ["third"])
    assert build_result(debate)["findings"] == told["findings"]
    for text in (render_markdown(told), render_html(told)):
        assert "supported by codex, claude; rejected by third" in text
        assert "third looked" in text


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, timeout=60, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a branch beside what is checked out, which went on meanwhile."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    (folder / ".env").write_text("T=1\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    git(folder, "checkout", "-qb", "feature")
    (folder / "a.py").write_text("a = 2\n", encoding="utf-8")
    (folder / ".env").write_text("T=2\n", encoding="utf-8")
    (folder / "link").symlink_to("a.py")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "second")
    git(folder, "checkout", "-q", "main")
    (folder / "later.py").write_text("later = 1\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "third")
    return folder


@pytest.mark.parametrize("checked_out", ["main", "feature"])
def test_a_branch_is_reviewed_as_it_is_whatever_is_checked_out(checked_out: str, repository: Path) -> None:
    git(repository, "checkout", "-q", checked_out)
    (repository / "a.py").write_text("a = 3\n", encoding="utf-8")
    context = asyncio.run(read_review_context(repository, "feature"))
    assert "-a = 1\n+a = 2" in context.diff
    assert "T=" not in context.diff
    assert "later" not in context.diff
    assert (context.changed, context.left_out) == (("a.py",), (".env",))
    with take_snapshot(context) as copy:
        assert [path.name for path in copy.folder.iterdir()] == ["a.py"]
        assert (copy.folder / "a.py").read_text(encoding="utf-8") == "a = 2\n"


@pytest.mark.parametrize(
    ("branch", "base"), [("nothing", ""), ("main~1", ""), ("feature", "nothing"), ("--x", "")]
)
def test_a_branch_that_is_none_or_changes_nothing_is_refused(
    branch: str, base: str, repository: Path
) -> None:
    with pytest.raises(DebateError) as caught:
        asyncio.run(read_review_context(repository, branch, (), base))
    assert caught.value.code == "bad_files"

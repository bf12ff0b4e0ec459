"""The benchmark of edits is right itself: its cases have the outcome that they say, whoever edits."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
DRIFT = ROOT / "benchmarks" / "drift"
EXACT_ONLY = f"{sys.executable} {DRIFT / 'peers' / 'exact_only.py'}"


@pytest.fixture
def drift(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what imports a module of the benchmark, which is scripts beside each other."""
    monkeypatch.setattr(sys, "path", [str(DRIFT), str(DRIFT.parent), *sys.path])
    return importlib.import_module


def measured(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DRIFT / "measure.py"), *words],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def figures(file: Path) -> dict[tuple[str, str, str], float]:
    found = json.loads(file.read_text(encoding="utf-8"))["figures"]
    return {(each["table"], each["of"], each["name"]): each["value"] for each in found}


def test_a_literal_replacement_is_right_for_every_exact_fragment(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    words = (
        "--group",
        "exact",
        "--count",
        "100",
        "--seed",
        "1",
        "--command",
        EXACT_ONLY,
        "--json",
        str(file),
    )
    done = measured(*words)
    assert done.returncode == 0, done.stderr
    found = figures(file)
    assert found["groups", "exact", "edits"] >= 200
    assert found["groups", "exact", "right"] == 100


def test_the_cases_follow_from_the_seed(tmp_path: Path) -> None:
    found: list[list[Any]] = []
    for nth, seed in enumerate(("3", "3", "4")):
        kept = tmp_path / str(nth)
        words = (
            "--count",
            "40",
            "--seed",
            seed,
            "--keep-wrong",
            str(kept),
            "--keep",
            "right",
            "--keep",
            "refused",
        )
        done = measured("--group", "stale", "--group", "twins", *words)
        assert done.returncode == 0, done.stderr
        cases = (json.loads(each.read_text(encoding="utf-8")) for each in sorted(kept.iterdir()))
        found.append([(each["kind"], each["search"], each["replace"]) for each in cases])
    assert found[0] == found[1] != found[2]
    assert found[0]


def test_a_wrong_file_is_told_kept_and_fails_where_that_is_asked(tmp_path: Path) -> None:
    words = ("--group", "placeholders", "--count", "20", "--seed", "1", "--command", EXACT_ONLY)
    done = measured(*words, "--strict", "--keep-wrong", str(tmp_path / "kept"))
    assert done.returncode == 1
    kept = json.loads(next((tmp_path / "kept").iterdir()).read_text(encoding="utf-8"))
    assert kept["written"] not in {kept["text"], *kept["also"]}
    assert kept["expected"] is None


def test_edits_of_a_history_are_right_where_they_were_made(tmp_path: Path) -> None:
    repository, file = tmp_path / "repository", tmp_path / "found.json"
    lines = [f"value_{nth} = {nth}\n" for nth in range(40)]
    git(tmp_path, "init", "-q", str(repository))
    for nth in range(6):
        lines[7 * nth] = f"changed_{nth} = {nth}\n"
        (repository / "values.py").write_text("".join(lines), encoding="utf-8")
        git(repository, "add", ".")
        git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", str(nth))
    words = ("--group", "history", "--history", str(repository), "--count", "20", "--seed", "1")
    done = measured(*words, "--only", "as_it_was", "--command", EXACT_ONLY, "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert figures(file)["groups", "history", "right"] == 100


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("search", "replace", "shown", "expected"),
    [
        ("a\nb\n", "a\nc\n", "a2\nb\n", "a2\nc\n"),
        ("a\nb\n", "a\nnew\nb\n", "a  # more\nb\n", "a  # more\nnew\nb\n"),
        ("x = f(one)\n", "x = g(one)\n", "x = f(one, 2)\n", "x = g(one, 2)\n"),
        ("if a:\n    b\n", "if a:\n    c\n", "    if a:\n        b\n", "    if a:\n        c\n"),
        ("a\nb\n", "a\nc\n", "a\nd\n", None),
    ],
    ids=["lines", "an insertion beside", "words", "depth", "both changed it"],
)
def test_a_reader_makes_the_same_change_to_what_it_is_shown(
    drift: Any, search: str, replace: str, shown: str, expected: str | None
) -> None:
    made = drift("reader").copied(search, replace, shown.removesuffix("\n").split("\n"))
    assert made == (None if expected is None else (shown, expected))


@pytest.mark.parametrize(
    ("text", "aim", "search", "replace", "stands"),
    [
        ("a1\nb2\nc3\n", "a1\nnew\nc3\n", "x\nb2\ny\n", "x\nnew\ny\n", True),
        ("a1\nb2\nc3\n", "a1\nnew\nb2\nc3\n", "x\na1\nb2\n", "x\na1\nnew\nb2\n", True),
        ("a1\nb2\nc3\n", "a1\nnew\nb2\nc3\n", "x\nb2\n", "x\nnew\nb2\n", False),
        ("}\n}\nc3\n", "}\nnew\n}\nc3\n", "x\n}\n}\n", "x\n}\nnew\n}\n", False),
        ("a\n  b2\n", "a\nb2\nnew\n", "b2\n", "b2\nnew\n", True),
    ],
    ids=["lines that go", "between two lines", "one of them is gone", "brackets", "blanks tell nothing"],
)
def test_a_place_is_there_if_the_lines_that_an_edit_changes_are(
    drift: Any, text: str, aim: str, search: str, replace: str, stands: bool
) -> None:
    assert drift("standing").has_place(text, aim, search, replace) == stands


def test_a_reader_does_not_land_the_loss_that_was_refused(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = measured("--group", "placeholders", "--count", "20", "--seed", "1", "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = figures(file)
    assert found["groups", "placeholders", "second tries"] > 0
    assert found["groups", "placeholders", "second try wrong"] == 0
    assert found["groups", "placeholders", "second try right"] > 0


def test_recorded_edits_are_judged_by_what_was_found_right_or_wrong(drift: Any, tmp_path: Path) -> None:
    recorded = drift("recorded")
    edit = {"of": "x", "path": "x.py", "text": "t", "search": "b\n", "replace": "c\n", "now": "landed"}
    right, wrong = recorded.digest_of(b"judged right\n"), recorded.digest_of(b"judged wrong\n")
    edits: list[dict[str, Any]] = [
        {**edit, "id": "1", "kind": "exact1", "digest_right": [], "digest_wrong": []},
        {**edit, "id": "2", "kind": "drift", "digest_right": [right], "digest_wrong": [wrong]},
    ]
    file = tmp_path / "edits.json"
    file.write_text(json.dumps({"texts": {"t": "a\nb\n"}, "edits": edits}), encoding="utf-8")
    (_, (exact,)), (_, (drifted,)) = recorded.cases(recorded.read(file))
    assert exact.end(b"a\nc\n") == "right"
    assert [drifted.end(each) for each in (b"judged right\n", b"judged wrong\n", b"a\nc\n", None)] == [
        "right",
        "wrong",
        "unjudged",
        "refused",
    ]


CHAT = """
# aider chat started at 2025-01-02 03:04:05

#### Rename b

values.py
```python
<<<<<<< SEARCH
b = 2
=======
c = 2
>>>>>>> REPLACE
```

> Applied edit to values.py
> Commit {commit} Rename
"""


def test_a_chat_in_a_repository_becomes_recorded_edits(tmp_path: Path) -> None:
    repository, out = tmp_path / "repository", tmp_path / "out.json"
    git(tmp_path, "init", "-q", str(repository))
    for text in ("a = 1\nb = 2\n", "a = 1\nc = 2\n"):
        (repository / "values.py").write_text(text, encoding="utf-8")
        git(repository, "add", ".")
        git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    head = (repository / ".git" / "HEAD").read_text(encoding="utf-8").split()[1]
    commit = (repository / ".git" / head).read_text(encoding="utf-8")[:8]
    (repository / ".aider.chat.history.md").write_text(CHAT.format(commit=commit), encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "chat")
    words = [sys.executable, str(DRIFT / "transcripts.py"), str(out), "--chats", str(repository)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    found = json.loads(out.read_text(encoding="utf-8"))
    (edit,) = found["edits"]
    assert (edit["kind"], edit["search"], edit["replace"], edit["now"]) == (
        "exact1",
        "b = 2\n",
        "c = 2\n",
        "landed",
    )
    assert found["texts"][edit["text"]] == "a = 1\nb = 2\n"
    assert len(edit["digest_right"]) == 1

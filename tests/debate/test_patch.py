"""A debate that ends in a patch: the engine checks the edits of the sides, and a person applies one."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate import rounds
from kakite.debate.files import FileSnapshot
from kakite.debate.model import CodeContext, Debate, DebateError, Decision
from kakite.debate.patch import ProposedPatch, RefusedPatch, apply_patch, build_patches
from kakite.debate.rounds import next_requests
from kakite.errors import KakiteError
from tests.debate.arguing import CLAUDE, CODEX, THIRD, answer, answered, terms

OLD = {"a.py": "a = 1\nb = 1\n", "src/c.py": "c = 1\n"}


def block(path: str, old: str, new: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def write(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> FileSnapshot:
    return FileSnapshot(folder=write(tmp_path / "copy", OLD))


def ended(texts: dict[str, str]) -> Debate:
    """Return a debate whose sides were asked for a patch, and answered so."""
    sides = tuple(side for side in (CODEX, CLAUDE, THIRD) if side.name in texts)
    config = replace(terms(*sides, rounds=1), code=CodeContext(folder="/nowhere"))
    debate = answered(rounds.begin("Why?", config))
    debate = rounds.on_decision(debate, Decision(kind="patch"))
    return answered(debate, lambda side: answer(texts[side]))


def test_all_are_asked_for_edits_that_all_could_sign() -> None:
    config = replace(terms(CODEX, CLAUDE, rounds=1), code=CodeContext(folder="/nowhere"))
    debate = rounds.on_decision(answered(rounds.begin("Why?", config)), Decision(kind="patch"))
    assert all("<<<<<<< SEARCH" in ask.prompt for ask in next_requests(debate))


def test_without_files_there_is_no_patch() -> None:
    with pytest.raises(DebateError) as caught:
        rounds.on_decision(answered(rounds.begin("Why?", terms(rounds=1))), Decision(kind="patch"))
    assert caught.value.code == "bad_decision"


@given(st.dictionaries(st.sampled_from(["a.py", "src/c.py"]), st.integers(2, 9), min_size=1), st.booleans())
def test_what_is_applied_is_what_the_diff_says(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, int], creates: bool
) -> None:
    folder = write(tmp_path_factory.mktemp("repo"), OLD)
    twin = write(tmp_path_factory.mktemp("twin"), OLD)
    state = {"HOME": str(tmp_path_factory.mktemp("home"))}
    name = {"a.py": "a", "src/c.py": "c"}
    text = "".join(
        block(path, f"{name[path]} = 1\n", f"{name[path]} = {new}\n") for path, new in values.items()
    )
    text += block("new/d.py", "", "d = 1\n") if creates else ""
    made, _ = build_patches(ended({"codex": text, "claude": "No edits."}), FileSnapshot(folder=folder))
    assert isinstance(made, ProposedPatch)
    apply_patch(folder, made, run="r", environ=state)
    subprocess.run(["git", "apply"], input=made.diff.encode(), cwd=twin, check=True, timeout=60)
    read = [
        {str(file.relative_to(top)): file.read_text(encoding="utf-8") for file in top.rglob("*.py")}
        for top in (folder, twin)
    ]
    assert read[0] == read[1]
    assert read[0] != OLD


REFUSED = {
    "not there": block("a.py", "x = 1\n", "x = 2\n"),
    "no edits": "It is fine as it is.",
    "no file": block("z.py", "z = 1\n", "z = 2\n"),
    "elsewhere": block("../other.py", "x = 1\n", "x = 2\n"),
    "a new file elsewhere": block("../new.py", "", "x = 2\n"),
    "secret": block(".env", "", "T=1\n"),
    "a hook": block(".git/hooks/pre-commit", "", "rm\n"),
    "half": block("a.py", "a = 1\n", "a = 2\n") + block("a.py", "x = 1\n", "x = 2\n"),
    "nothing": block("a.py", "a = 1\n", "a = 1\n"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_edits_that_do_not_fit_are_refused_and_the_next_count(how: str, files: FileSnapshot) -> None:
    good = block("src/c.py", "c = 1\n", "c = 2\n")
    first, second = build_patches(ended({"codex": REFUSED[how], "claude": good}), files)
    assert isinstance(first, RefusedPatch)
    assert first.reason
    assert isinstance(second, ProposedPatch)
    assert (second.side, "+c = 2" in second.diff) == ("claude", True)


def test_a_file_that_has_changed_meanwhile_stays_as_it_is(files: FileSnapshot, tmp_path: Path) -> None:
    texts = {
        "codex": block("a.py", "a = 1\n", "a = 2\n") + block("src/c.py", "c = 1\n", "c = 2\n"),
        "claude": "No.",
    }
    made = build_patches(ended(texts), files)[0]
    assert isinstance(made, ProposedPatch)
    folder = write(tmp_path / "repo", {**OLD, "src/c.py": "c = 1  # mine\n"})
    with pytest.raises(KakiteError):
        apply_patch(folder, made, run="r", environ={"HOME": str(tmp_path)})
    assert (folder / "a.py").read_text(encoding="utf-8") == OLD["a.py"]

"""Somebody swaps links and folders during the calls: nothing outside is read, listed or written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.racing import contents, plant, swapping

from kakite.workspace import Author, File, FileWrite, Workspace, WorkspaceError, compute_version, openat2

SECRET = b"secret of somebody else"
OUTSIDE = {"x": SECRET, "only-outside": SECRET, "sub/x": SECRET, "sub/deep/x": SECRET, ".gitignore": SECRET}


@dataclass
class Raced:
    """A workspace, and what was seen through it that lies outside."""

    workspace: Workspace
    calls: int = 0
    done: int = 0
    escapes: list[str] = field(default_factory=list[str])

    def round(self, number: int) -> None:
        for path in ("d/x", "p/q/x", "f", "p/q/../../f", "d/../p/q/deep/x", "new/../d/x", "new/x"):
            for call in (self._read, self._write, self._write_all, self._remove, self._undo, self._run):
                self._attempt(path, lambda call=call, path=path: call(path, number))
        for folder in ("d", "p", "p/q", "."):
            for list_it in (self._walk, self._files):
                self._attempt(folder, lambda list_it=list_it, folder=folder: list_it(folder))

    def _attempt(self, path: str, action: Callable[[], None]) -> None:
        self.calls += 1
        try:
            action()
        except WorkspaceError as error:
            if "secret" in f"{error} {error.diff}":
                self.escapes.append(f"error of {path}: {error.code} {error} {error.diff}")
            return
        self.done += 1

    def _version(self, path: str) -> str | None:
        try:
            return self._seen(path).version
        except WorkspaceError:
            return None

    def _seen(self, path: str) -> File:
        file = self.workspace.read(path)
        if file.data == SECRET:
            self.escapes.append(f"read {path}")
        return file

    def _read(self, path: str, _number: int) -> None:
        self._seen(path)

    def _write(self, path: str, number: int) -> None:
        self.workspace.write(path, f"{number}".encode(), expected=self._version(path))

    def _write_all(self, path: str, number: int) -> None:
        data = f"both {number}".encode()
        writes = [
            FileWrite(path=each, data=data, expected=self._version(each)) for each in (path, f"{path}.2")
        ]
        self.workspace.write_all(writes, by=Author(run=f"{number}"))

    def _remove(self, path: str, _number: int) -> None:
        self.workspace.remove(path, expected=self._version(path) or compute_version(SECRET))

    def _undo(self, path: str, _number: int) -> None:
        self.workspace.undo(path)

    def _run(self, _path: str, number: int) -> None:
        self.workspace.undo_run(f"{number}")

    def _walk(self, folder: str) -> None:
        entries = self.workspace.walk(folder, depth=4, limit=1000, ignored=False)
        self.escapes += [f"listed {entry.path}" for entry in entries if "only-outside" in entry.path]

    def _files(self, folder: str) -> None:
        self.escapes += [
            f"found {each.path}" for each in self.workspace.find_files(folder) if "only-" in each.path
        ]


@contextmanager
def raced(tmp_path: Path) -> Generator[Raced]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    plant(outside, OUTSIDE)
    plant(root, {"d/x": b"1", "p/q/x": b"1", "p/q/deep/x": b"1", "f": b"1", "new/x": b"1"})
    (root / "to-outside").symlink_to(outside)
    (root / "to-sub").symlink_to("../outside/sub")
    (root / "to-file").symlink_to(outside / "x")
    workspace = Workspace([root])
    race = Raced(workspace)
    with swapping(root):
        yield race
    workspace.close()
    if contents(outside) != OUTSIDE:
        race.escapes.append("wrote outside")


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kernel", [True, False])
def test_no_swap_during_a_call_leads_out_of_the_workspace(
    kernel: bool, tmp_path: Path, proof: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        monkeypatch.setattr(openat2, "_openat2", _refuse)
        monkeypatch.setattr(openat2, "has_openat2", lambda: False)
    monkeypatch.setattr(os, "fsync", lambda _file: None)  # type: ignore[reportUnknownLambdaType] # only speed
    with raced(tmp_path) as race:
        number = 0
        while race.calls < (20_000 if proof else 2_000):
            race.round(number)
            number += 1
    assert race.escapes == []
    assert race.done > race.calls / 20, "the calls must have worked now and then"


def _refuse(*_arguments: object) -> int:
    raise OSError(38, "no such system call")


@pytest.mark.slow
def test_the_race_is_one_that_resolving_and_checking_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve_and_check(root: int, path: str, flags: int, mode: int = 0) -> int:
        top = Path(f"/proc/self/fd/{root}").readlink()
        real = Path(os.path.realpath(top / path))
        if not real.is_relative_to(top):
            raise OSError(18, "leads out")
        for _ in range(100):  # long enough to lose on a busy machine too
            os.access(real, os.F_OK)
        return os.open(real, flags | os.O_CLOEXEC, mode)

    monkeypatch.setattr(openat2, "open_beneath", resolve_and_check)
    monkeypatch.setattr(os, "fsync", lambda _file: None)  # type: ignore[reportUnknownLambdaType] # only speed
    end = time.monotonic() + 60
    with raced(tmp_path) as race:
        number = 0
        while not race.escapes and time.monotonic() < end:
            race.round(number)
            number += 1
            if not _untouched(tmp_path / "outside"):
                race.escapes.append("wrote outside")
    assert race.escapes


def _untouched(outside: Path) -> bool:
    try:
        return contents(outside) == OUTSIDE
    except FileNotFoundError:  # listed, then swapped away: what nobody wrote to, nobody swaps there
        return False

"""Which sandbox a session gets where the person names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kakite.cli.session_setup import choose_session_sandbox
from tests.engines import Engine


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_bubblewrap_is_taken_first_and_without_any_the_person_is_told(programs: Path) -> None:
    kind, note = choose_session_sandbox("auto")
    assert (kind, "without isolation" in note) == ("local", True)
    (programs / "bwrap").touch(mode=0o755)
    assert choose_session_sandbox("auto") == ("bubblewrap", "")


def test_a_kind_that_the_person_named_is_taken_as_it_is(programs: Path) -> None:
    assert choose_session_sandbox("container:go") == ("container:go", "")
    assert not any(programs.iterdir())


@pytest.mark.engine
def test_a_container_is_taken_where_bubblewrap_is_not_installed(
    docker: Engine, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in docker.environ.keys() - {"PATH"}:
        monkeypatch.setenv(name, docker.environ[name])
    (programs / "docker").symlink_to("/usr/bin/docker")
    assert choose_session_sandbox("auto") == ("container", "")

"""Which sandbox a repository may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kakite.cli.app import app
from kakite.cli.settings import load_settings


def test_more_days_than_a_calendar_has_are_wrong_usage() -> None:
    result = CliRunner().invoke(app, ["sandbox", "prune", "--days", "999999999"])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ("local", "container", "container"),
        ("local", "container:node", "container:node"),
        ("auto", "bubblewrap", "bubblewrap"),
        ("container:mine/image:1", "container:mine/image:1", "container:mine/image:1"),
        ("bubblewrap", "container:mine/image:1", "bubblewrap"),
        ("bubblewrap", "container:", "bubblewrap"),
        ("bubblewrap", "auto", "bubblewrap"),
        ("container", "local", "container"),
        ("container", "nothing-that-we-know", "container"),
    ],
)
def test_a_repository_may_choose_a_kind_that_isolates_and_an_image_of_ours(
    present: str, wanted: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own" / "kakite"
    own.mkdir(parents=True)
    (own / "kakite.yaml").write_text(f"sandbox: '{present}'\n", encoding="utf-8")
    Path("kakite.yaml").write_text(f"sandbox: '{wanted}'\n", encoding="utf-8")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert load_settings({}, environ).sandbox == expected

"""What we depend on: every file held to its hash, every licence looked at, weaknesses found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.engines import ROOT

LOCK = ROOT / "requirements.lock"
ENTRIES = re.findall(r"^\S.*(?:\n {4}.*)*", LOCK.read_text(encoding="utf-8"), re.MULTILINE)


def script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "audit" / name, *arguments]
    return subprocess.run(
        [*map(str, command)], capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_every_entry_of_the_lock_file_is_one_version_with_hashes_and_names_no_address() -> None:
    assert len(ENTRIES) > 100
    for entry in ENTRIES:
        first, *hashes = entry.split(" \\\n    ")
        assert re.fullmatch(r"[\w.-]+==[\w.!+]+( ; .*)?", first), entry
        assert hashes, entry
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry
    assert "://" not in LOCK.read_text(encoding="utf-8")


def test_all_that_the_project_asks_for_is_locked() -> None:
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [
        *project["project"]["dependencies"],
        *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
        *project["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[<>=~; ]", each)[0].lower() for each in asked} - {"kakite"}
    assert names <= {entry.partition("==")[0].lower() for entry in ENTRIES}


def test_the_list_of_licences_is_that_of_the_lock_file_and_none_is_refused() -> None:
    done = script("licences.py")
    assert (done.returncode, done.stderr) == (0, "")
    kept = (ROOT / "audit" / "licences.md").read_text(encoding="utf-8")
    assert done.stdout == kept, "`make licences` writes it anew"


def test_a_licence_that_nobody_looked_at_is_refused() -> None:
    code = (
        "import licences; licences.licence = lambda name: 'AGPL-3.0' if name == 'regex' else 'MIT'\n"
        "print(licences.refused())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "audit",
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    assert done.stdout == "['regex: AGPL-3.0']\n"


RANGES = [
    ({"events": [{"introduced": "0"}]}, "3.0", True),
    ({"events": [{"introduced": "0"}, {"fixed": "3.0"}]}, "3.0", False),
    ({"events": [{"introduced": "0"}, {"fixed": "3.0"}]}, "3.0rc1", True),
    ({"events": [{"introduced": "3.1"}]}, "3.0", False),
    ({"events": [{"introduced": "0"}, {"last_affected": "3.0"}]}, "3.0", True),
    ({"events": [{"introduced": "0"}, {"last_affected": "3.0"}]}, "3.0.1", False),
    (
        {"events": [{"fixed": "2.0"}, {"introduced": "0"}, {"introduced": "2.5"}, {"fixed": "10.0"}]},
        "3.0",
        True,
    ),
    ({"events": [{"introduced": "0"}, {"fixed": "2.0"}, {"introduced": "3.5"}]}, "3.0", False),
    ({"type": "GIT", "events": [{"introduced": "0"}]}, "3.0", False),
]


@pytest.mark.parametrize(("affected", "version", "weak"), RANGES)
def test_a_weakness_is_found_where_the_locked_version_is_in_its_range(
    tmp_path: Path, affected: dict[str, Any], version: str, weak: bool
) -> None:
    lock, export = tmp_path / "lock", tmp_path / "all.zip"
    lock.write_text(f"some-thing=={version} \\\n    --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    package = {"ecosystem": "PyPI", "name": "Some_Thing"}
    records = [
        {
            "id": "X-1",
            "summary": "bad",
            "affected": [{"package": package, "ranges": [{"type": "ECOSYSTEM", **affected}]}],
        },
        {"id": "X-2", "withdrawn": "2026-01-01", "affected": [{"package": package, "versions": [version]}]},
        {"id": "X-3", "affected": [{"package": {**package, "name": "another"}, "versions": [version]}]},
    ]
    with zipfile.ZipFile(export, "w") as archive:
        for record in records:
            archive.writestr(f"{record['id']}.json", json.dumps(record))
    done = script("advisories.py", export, lock)
    assert done.returncode == int(weak), done.stderr
    assert (f"some-thing {version}: X-1 bad" in done.stdout) is weak
    assert ("0 known weaknesses" in done.stdout) is not weak

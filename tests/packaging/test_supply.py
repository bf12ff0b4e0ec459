"""What we depend on: every file held to its hash, every licence looked at, weaknesses found."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from scripts.environment import entries, problems

from tests.engines import ROOT

LOCK = ROOT / "requirements.lock"


def script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "audit" / name, *arguments]
    return subprocess.run(
        [*map(str, command)], capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def entries_of(lock: Path) -> list[str]:
    return re.findall(r"^\S.*(?:\n {4}.*)*", lock.read_text(encoding="utf-8"), re.MULTILINE)


PEERS = ROOT / "benchmarks" / "drift"
LOCKS = [
    LOCK,
    *(
        ROOT / "tests" / name
        for name in ("fuzz/atheris.lock", "models/providers.lock", "packaging/pipx.lock")
    ),
    *(PEERS / "peers" / "locks").glob("*.lock"),
]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_entry_of_a_lock_file_is_one_version_with_hashes_and_names_no_address(lock: Path) -> None:
    found = entries_of(lock)
    assert found
    for entry in found:
        first, *hashes = entry.split(" \\\n    ")
        assert re.fullmatch(r"[\w.-]+==[\w.!+]+( ; .*)?", first), entry
        assert hashes, entry
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry
    assert "://" not in lock.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_is_installed_is_what_is_locked_and_all_that_is_asked_for() -> None:
    assert list(problems()) == []


def ranges_asked(project_file: str) -> list[Requirement]:
    """Return what one of our two distributions asks of others, for all its extras."""
    project: Any = tomllib.loads((ROOT / project_file).read_text(encoding="utf-8"))["project"]
    asked = chain(project["dependencies"], *project.get("optional-dependencies", {}).values())
    return [one for text in asked if (one := Requirement(text)).name != "kakite"]


PACKAGES = {"src/kakite": "pyproject.toml", "testing/src/kakite_testing": "testing/pyproject.toml"}
"""Where the sources of each are, and what names its requirements."""
RANGES_ASKED = [one for file in PACKAGES.values() for one in ranges_asked(file)]
ALONG = {
    "mcp-types": "mcp",
    "pydantic-core": "pydantic",
    "cryptography": "pyjwt",
    "google-genai": "pydantic-ai-slim",
}
"""What another that is named brings, in one version or within a range of its own."""


def imported(sources: str) -> set[str]:
    """Return the first words of all that a package imports, wherever in a module it does."""
    found: set[str] = set()
    files = (ROOT / sources).rglob("*.py")
    for file in (each for each in files if "project" not in each.parts):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    return {name.partition(".")[0] for name in found}


@pytest.mark.slow
@pytest.mark.parametrize(("sources", "least"), [("src/kakite", 25), ("testing/src/kakite_testing", 3)])
def test_each_library_that_a_package_imports_is_named_in_its_requirements(sources: str, least: int) -> None:
    """What only comes along with another may leave with it, or come in a version that breaks us."""
    named = {canonicalize_name(one.name) for one in ranges_asked(PACKAGES[sources])}
    providers = importlib.metadata.packages_distributions()
    seen = 0
    for name in imported(sources) - set(sys.stdlib_module_names) - {"kakite", "kakite_testing"}:
        given = {canonicalize_name(each) for each in providers.get(name, ())}
        given |= {ALONG[each] for each in given & ALONG.keys()}
        seen += bool(given)
        assert not given or given & named, f"{name}, of {', '.join(given)}"
    assert seen > least


def test_both_distributions_ask_for_the_same_ranges() -> None:
    ours, fakes = ({str(one) for one in ranges_asked(file)} for file in PACKAGES.values())
    assert fakes
    assert fakes <= ours


@pytest.mark.parametrize("asked", RANGES_ASKED, ids=str)
def test_each_requirement_ends_where_the_library_may_break_its_promise(asked: Requirement) -> None:
    (locked,) = (Version(str(one.specifier)[2:]) for one, _ in entries() if one.name == asked.name.lower())
    after = f"{locked.major + 1}.0" if locked.major else f"0.{locked.minor + 1}.0"
    if locked.major > 2000:  # a year
        after = f"{locked.major + 1}.1"
    assert asked.specifier.contains(str(locked))
    assert not asked.specifier.contains(after)


def is_ours(file: Path) -> bool:
    return not any(part == "node_modules" or part[0] == "." for part in file.relative_to(ROOT).parts)


NPM = [file.parent for file in ROOT.glob("*/**/package-lock.json") if is_ours(file)]


@pytest.mark.parametrize("folder", NPM, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_lock_file_of_npm_fits_its_project_has_hashes_and_names_no_registry(folder: Path) -> None:
    project, lock = (
        json.loads((folder / f"package{each}.json").read_text(encoding="utf-8")) for each in ("", "-lock")
    )
    (_, first), *others = lock["packages"].items()
    for kind in ("dependencies", "devDependencies"):
        assert first.get(kind) == project.get(kind)
        assert all(re.search(r"(^|@)\d[\w.-]*$", version) for version in project.get(kind, {}).values())
    assert others
    for name, entry in others:
        assert entry["version"], name
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name
    kept = (folder / ".npmrc").read_text(encoding="utf-8").split()
    assert "omit-lockfile-registry-resolved=true" in kept  # for whoever renews it


def test_each_peer_of_the_benchmarks_is_locked_in_the_version_that_is_named() -> None:
    module = runpy.run_path(str(PEERS / "engines.py"))
    peers: list[Any] = [peer for peer in (*module["PEERS"], *module["BESIDE"]) if peer.packages]
    assert len(peers) > 5
    for peer in peers:
        lock: Path = peer.lock
        if peer.by_npm:
            found = json.loads((lock / "package-lock.json").read_text(encoding="utf-8"))["packages"]
            have = {f"{key.partition('/')[2]}@{each.get('version')}" for key, each in found.items()}
            asked = set(peer.packages[1:] if peer.alone else peer.packages)
        else:
            have = {entry.split()[0] for entry in entries_of(lock)}
            asked = set(peer.packages)
        assert asked <= have, peer.name


def test_the_list_of_licences_is_that_of_the_lock_file_and_none_is_refused() -> None:
    done = script("licences.py")
    assert (done.returncode, done.stderr) == (0, "")
    kept = (ROOT / "audit" / "licences.md").read_text(encoding="utf-8")
    assert done.stdout == kept, "`make licences` writes it anew"


@pytest.mark.parametrize(
    ("said", "fine"),
    [
        ("AGPL-3.0", False),
        ("Elastic License 2.0", False),
        ("unknown", False),
        ("", False),
        ("MIT AND Elastic-2.0", False),
        ("MIT License; Proprietary", False),
        ("MIT OR GPL-3.0-only", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("MIT", True),
    ],
)
def test_a_licence_that_is_not_allowed_and_that_nobody_looked_at_is_refused(said: str, fine: bool) -> None:
    code = (
        f"import licences; licences.licence = lambda name: {said!r} if name == 'regex' else 'MIT'\n"
        f"licences.bundled = lambda: [('yjs', '1', {said!r})]\n"
        "print(*licences.refused(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "audit",
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == ("" if fine else f"regex: {said}\nyjs: {said}".strip())


def test_the_notices_of_the_page_are_of_the_locked_packages_and_have_the_texts_of_their_licences() -> None:
    """`npm run build` writes them from what is in the bundle; tests of the page build it anew and compare."""
    web = ROOT / "web/collab"
    locked = json.loads((web / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    direct = json.loads((web / "package.json").read_text(encoding="utf-8"))["dependencies"]
    notices = (ROOT / "src/kakite/collab/page/licences.txt").read_text(encoding="utf-8")
    parts = notices.split(f"\n{'-' * 78}\n\n")[1:]
    heads = [re.fullmatch(r"(\S+) (\S+) \((\S+)\)", part.partition("\n")[0]) for part in parts]
    found = {head[1]: (head[2], head[3]) for head in heads if head}
    assert len(found) == len(parts) >= len(direct)
    assert set(direct) <= set(found)
    for name, (version, licence) in found.items():
        entry = locked[f"node_modules/{name}"]
        assert (entry["version"], entry["license"]) == (version, licence)
        assert not entry.get("dev"), name
        assert f"| {name} | {version} | {licence} |" in (ROOT / "audit/licences.md").read_text("utf-8")
    assert all(re.search(r"copyright", part, re.IGNORECASE) for part in parts)
    assert all(re.search(r"warranty|warranties", part, re.IGNORECASE) for part in parts)


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
    package = {"ecosystem": "PyPI", "name": "Some_Thing"}
    records = [
        record("X-1", {"package": package, "ranges": [{"type": "ECOSYSTEM", **affected}]}, summary="bad"),
        record("X-2", {"package": package, "versions": [version]}, withdrawn="2026-01-01"),
        record("X-3", {"package": {**package, "name": "another"}, "versions": [version]}),
        record("X-4", {"package": {**package, "ecosystem": "npm"}, "versions": [version]}),
    ]
    done = looked_up(tmp_path, records, locked=f"some-thing=={version}")
    assert done.returncode == int(weak), done.stderr
    assert done.stdout == ("some-thing " + version + ": X-1 bad\n") * weak + f"{int(weak)} known weaknesses\n"


SEMANTIC = [
    ({"events": [{"introduced": "0"}, {"fixed": "13.6.33"}]}, "13.6.33", False),
    ({"events": [{"introduced": "0"}, {"fixed": "13.10.0"}]}, "13.6.33", True),
    ({"events": [{"introduced": "13.6.33-rc.2"}]}, "13.6.33", True),
    ({"events": [{"introduced": "0"}, {"fixed": "2.0.0-next.3"}]}, "2.0.0-next.10", False),
    ({"events": [{"introduced": "0"}, {"fixed": "2.0.0-next.10"}]}, "2.0.0-next.3", True),
    ({"events": [{"introduced": "0"}, {"fixed": "2.0.0"}]}, "2.0.0-rc.1", True),
]


@pytest.mark.parametrize(("affected", "version", "weak"), SEMANTIC)
def test_a_weakness_of_javascript_in_the_page_is_found_too(
    tmp_path: Path, affected: dict[str, Any], version: str, weak: bool
) -> None:
    package = {"ecosystem": "npm", "name": "@some/thing"}
    records = [record("X-1", {"package": package, "ranges": [{"type": "SEMVER", **affected}]})]
    done = looked_up(tmp_path, [*records, BOTH], page=f"@some/thing {version} (MIT)")
    assert (done.returncode, f"@some/thing {version}: X-1" in done.stdout) == (int(weak), weak), done.stderr


def test_an_export_that_has_nothing_of_npm_or_of_pypi_is_not_taken_for_a_clean_bill(tmp_path: Path) -> None:
    done = looked_up(tmp_path, [record("X-1", {"package": {"ecosystem": "PyPI", "name": "x"}})])
    assert (done.returncode, done.stdout) == (2, "")
    assert "npm" in done.stderr


def record(name: str, affected: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"id": name, "affected": [affected], **more}


BOTH = {
    "id": "X-9",
    "affected": [{"package": {"ecosystem": each, "name": "another"}} for each in ("PyPI", "npm")],
}


def looked_up(
    tmp_path: Path, records: list[dict[str, Any]], locked: str = "a==1", page: str = "b 1.0.0 (MIT)"
) -> subprocess.CompletedProcess[str]:
    """Look up what is locked and what is in the page in an export of these records."""
    lock, notices, export = tmp_path / "lock", tmp_path / "notices", tmp_path / "all.zip"
    lock.write_text(f"{locked} \\\n    --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    notices.write_text(f"Made of\n\n{'-' * 78}\n\n{page}\n\nThe text\n", encoding="utf-8")
    with zipfile.ZipFile(export, "w") as archive:
        for each in records:
            archive.writestr(f"{each['id']}.json", json.dumps(each))
    return script("advisories.py", export, "--lock", lock, "--notices", notices)

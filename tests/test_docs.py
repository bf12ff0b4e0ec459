"""What the documentation must not leave out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scripts import reference
from typer.main import get_command

from kakite.cli.app import app
from kakite.cli.settings import Settings
from kakite.tools import Tool

ROOT = Path(__file__).parent.parent
DOCS = "\n".join(file.read_text(encoding="utf-8") for file in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])


def _options() -> list[str]:
    found: set[str] = set()
    for _, command in reference.commands(get_command(app)):
        found |= {option for each in command.params for option in each.opts if option.startswith("--")}
    return sorted(found - {"--install-completion", "--show-completion"})


@pytest.mark.parametrize("option", _options())
def test_every_option_is_documented(option: str) -> None:
    assert f"`{option}`" in DOCS or f"`{option} " in DOCS


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in DOCS
    assert f"`KAKITE_{name.upper()}`" in DOCS


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_is_what_the_program_says(page: str) -> None:
    assert (reference.DOCS / "reference" / page).read_text(encoding="utf-8") == reference.PAGES[page]()


def test_a_code_that_no_page_explains_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = reference.codes()
    assert {"near_miss", "forge_conflict", "model_auth", "sandbox_missing", "no_such_suggestion"} <= {*known}
    monkeypatch.setattr(reference, "codes", lambda: [*known, "never_told"])
    with pytest.raises(SystemExit, match="never_told"):
        reference.code_page()


TOOLS = list({tool.name: tool for tools in reference.SERVED.values() for tool in tools}.values())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_argument_of_a_tool_is_documented(tool: Tool) -> None:
    assert f"`{tool.name}`" in DOCS
    for argument in tool.parameters["properties"]:
        assert f"`{argument}`" in DOCS or f"`{argument}:" in DOCS


def _site(folder: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    with (folder / "docs/index.md").open("a", encoding="utf-8") as start:
        start.write(more)
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run(
        [zensical, "build", "--strict"],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


def test_the_site_is_built_of_every_page_and_nothing_foreign(tmp_path: Path) -> None:
    done = _site(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "docs").glob("**/*.md"):
        built = (tmp_path / "site" / page.relative_to(tmp_path / "docs")).with_suffix(".html")
        told = built.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?://", told), page.name
        # Reachable from the menu, which is on every page.
        menu = (tmp_path / "site/index.html").read_text(encoding="utf-8")
        assert f'href="./{built.relative_to(tmp_path / "site")}"' in menu or page.name == "index.md", (
            page.name
        )


@pytest.mark.parametrize("link", ["[x](nowhere.md)", "[x](edit.md#nowhere)"])
def test_a_link_that_leads_nowhere_stops_the_site(tmp_path: Path, link: str) -> None:
    done = _site(tmp_path, f"\n{link}\n")
    assert done.returncode != 0
    assert "nowhere" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for file in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


def _outline(file: Path) -> dict[str, list[str]]:
    """Return what translations of a page have in common."""
    text = file.read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE))
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return {
        "headings": re.findall(r"^#+(?= )", prose, re.MULTILINE),
        "numbers": re.findall(r"^#+ (\d)", prose, re.MULTILINE),
        "commands": [line.partition("  #")[0].rstrip() for line in blocks.splitlines()],
        "links": re.findall(r"\]\(([^)]*)\)", prose),
        "rows": re.findall(r"^\|(?= )", prose, re.MULTILINE),
        "points": re.findall(r"^-(?= )", prose, re.MULTILINE),
        "figures": sorted(re.findall(r"\d[\d .–]*%|20 000", prose)),
        "code": sorted(" ".join(each.split()) for each in re.findall(r"`([^`]+)`", prose)),
    }


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_a_translation_of_the_readme_says_the_same(language: str) -> None:
    assert _outline(ROOT / f"README.{language}.md") == _outline(ROOT / "README.md")


def test_chinese_has_chinese_punctuation_and_no_code_is_broken_over_two_lines() -> None:
    for file in ROOT.glob("README*.md"):
        prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert [each for each in re.findall(r"`[^`]+`", prose) if "\n" in each] == [], file.name
    text = re.sub(r"`[^`\n]+`", "`", (ROOT / "README.zh.md").read_text(encoding="utf-8"))
    assert re.findall(r".*(?:[一-鿿）][,:;?!]|[,:;?!][一-鿿（]).*", text) == []


def test_every_anchor_of_a_link_is_a_heading_of_its_page() -> None:
    for file in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", file.read_text(encoding="utf-8")):
            page = file.parent / target if target else file
            assert anchor in _anchors(page), f"{file.name}: {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """Return what leads to headings: to a second one of the same name with `_1`, as on our site."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: Counter[str] = Counter()
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())
        anchors.add(f"{name}_{found[name]}" if found[name] else name)
        found[name] += 1
    return anchors


def test_no_file_keeps_the_marks_of_a_merge() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    if not names:
        pytest.skip("this is no checkout of git")
    marked = re.compile(rb"^(?:<{7} (?!SEARCH)|>{7} (?!REPLACE)|\|{7} )", re.MULTILINE)
    for name in names.decode().strip("\0").split("\0"):
        assert not ((ROOT / name).is_file() and marked.search((ROOT / name).read_bytes())), name

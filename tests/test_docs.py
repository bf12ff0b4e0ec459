"""What the documentation must not leave out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from scripts import offered, reference
from scripts.codes import codes

from kakite.cli.app import build_command
from kakite.cli.settings import EXTRA_KEYS, EXTRA_VARIABLES, Settings
from kakite.serve.server import INSTRUCTIONS
from kakite.tools import Tool

# What is collected of the source is collected once, by one of the processes that share the tests.
pytestmark = [pytest.mark.docs, pytest.mark.xdist_group("docs")]

ROOT = Path(__file__).parent.parent
PAGES: Mapping[str, Sequence[str]] = {
    "": ("install",),
    "acp": ("editors",),
    "agent": ("agent-reference", "agent-web"),
    "chat": ("chat",),
    "ci": ("ci",),
    "collab": ("collab",),
    "debate": ("debate", "debate-server"),
    "doctor": ("install", "sandbox"),
    "edit": ("edit-command",),
    "history": ("workspace",),
    "host": ("host", "host-approval", "host-config", "host-login", "host-servers"),
    "install": ("clients",),
    "models": ("models",),
    "review": ("review",),
    "sandbox": ("sandbox",),
    "serve": ("serve",),
    "undo": ("workspace",),
}
"""The pages of each command's part."""


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def stored() -> list[Path]:
    """Return the pages that git keeps: what people read on a forge."""
    pages = [page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "reference"]
    return [*ROOT.glob("*.md"), *pages]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all pages of the site, as `make docs` makes it."""
    folder = tmp_path_factory.mktemp("site") / "not/there/yet"
    command = [sys.executable, "-m", "scripts.reference", folder / "reference"]
    subprocess.run(command, cwd=ROOT, timeout=120, check=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("reference"), dirs_exist_ok=True)
    return folder


def sections(names: Sequence[str]) -> list[str]:
    """Return the pages' sections, each with the page's title: what it is about stands there."""
    found: list[str] = []
    for name in names:
        first, *others = re.split(r"^(?=## )", page(name), flags=re.MULTILINE)
        title = first.partition("## ")[0] if name == "serve" else ""
        found += [first, *(f"{title}{each}" for each in others)]
    return found


def tells_of_option(text: str, option: str) -> bool:
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return any(re.search(rf"(?<![\w-]){option}(?![\w-])", span) for span in spans)


def _commands() -> Iterator[tuple[str, Any]]:
    yield from reference.commands(build_command())


def _options() -> list[tuple[str, str]]:
    return [
        (name, option)
        for name, command in _commands()
        for each in command.params
        for option in each.opts
        if option.startswith("--") and not getattr(each, "hidden", False)
    ]


@pytest.mark.parametrize(("command", "option"), _options())
def test_every_option_is_documented_where_its_command_is(command: str, option: str) -> None:
    _, _, words = command.partition(" ")
    about = sections(PAGES[words.partition(" ")[0]])
    assert any(tells_of_option(each, option) and re.search(rf"\b{words}\b", each) for each in about)


def test_an_option_of_another_page_is_none_of_this_one() -> None:
    assert tells_of_option("with `--json` it", "--json")
    assert tells_of_option("`add allow X --when A=B`", "--when")
    assert not tells_of_option("with `--json-lines` it, or --json", "--json")
    assert not any(tells_of_option(each, "--webhooks") for each in sections(PAGES["edit"]))


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in _commands()])
def test_every_argument_has_words_of_its_own(name: str, command: Any) -> None:
    for each in command.params:
        assert getattr(each, "help", ""), f"{name}: {each.name}"


def test_groups_that_run_and_the_programs_own_options_are_in_the_reference() -> None:
    told = reference.command_page()
    assert "## `kakite`\n" in told
    for option in ("--version", "--install-completion", "--show-completion"):
        assert f"| `{option}` |" in told
    rules = told.partition("## `kakite host rules`\n")[2].partition("## ")[0]
    assert all(f"| `{option}" in rules for option in ("--all`", "--project ", "--json`"))
    assert "kakite host rules add [OPTIONS] allow|ask|deny SERVER__TOOL\n" in told


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented(name: str) -> None:
    told = "\n".join(page(each) for each in ("agent-reference", "collab", "debate", "sandbox", "workspace"))
    assert f"`{name}`" in told
    assert f"`KAKITE_{name.upper()}`" in told


NESTED = [name for name, _ in reference.settings(Settings) if "." in name]


@pytest.mark.parametrize("name", NESTED)
def test_every_key_inside_of_a_setting_is_documented(name: str) -> None:
    setting, _, key = name.partition(".")
    _, _, told = page("agent-reference").partition(f"| key of `{setting}` |")
    assert f"\n| `{key}` |" in told.partition("\n\n")[0] or any(
        each.startswith(f"{name}.") for each in NESTED
    )


def test_a_key_is_found_however_deep_it_is() -> None:
    class Inner(BaseModel):
        depth: int = 1

    class Outer(Settings):
        several: list[Inner] | None = None

    assert "several.depth" in [name for name, _ in reference.settings(Outer)]
    assert {"text_editor_mcp.enabled", "text_editor_mcp.mcp_server.name"} <= {*NESTED}


@pytest.mark.parametrize("name", [*EXTRA_KEYS, *EXTRA_VARIABLES])
def test_what_is_no_setting_and_read_all_the_same_is_documented(name: str) -> None:
    assert f"`{name}`" in page("agent-reference")
    assert f"`{name}`" in reference.setting_page()
    assert f".B {name}" in (ROOT / "man/kakite.1").read_text(encoding="utf-8")


def test_no_variable_is_read_by_a_name_that_the_generator_cannot_find() -> None:
    asked = re.compile(r"environ(?:\.get\(|\[)\s*\"([A-Z_]+)\"")
    ours = {
        name
        for file in (ROOT / "src/kakite/cli").rglob("*.py")
        for name in asked.findall(file.read_text(encoding="utf-8"))
        if name.startswith("KAKITE_") or "MCP" in name
    }
    told = reference.setting_page()
    assert ours
    assert not [name for name in ours if f"`{name}`" not in told]


def test_every_command_and_every_setting_is_on_the_pages_that_are_written(built: Path) -> None:
    told = {name: (built / "reference" / name).read_text(encoding="utf-8") for name in reference.PAGES}
    for name, _ in _commands():
        assert f"## `{name}`\n" in told["commands.md"]
    for name, option in _options():
        section = told["commands.md"].partition(f"## `{name}`\n")[2].partition("\n## ")[0]
        assert re.search(rf"`{option}[` ]", section), f"{name} {option}"
    for name in (*Settings.model_fields, *NESTED, *EXTRA_KEYS, *EXTRA_VARIABLES, *reference.variables()):
        assert f"| `{name}` |" in told["settings.md"], name
    for code in reference.codes():
        assert f"| `{code}` |" in told["codes.md"], code


def test_the_pages_are_written_where_the_script_is_told(built: Path) -> None:
    assert {each.name for each in (built / "reference").iterdir()} == {*reference.PAGES}


# --- codes


def made_of(folder: Path, source: str) -> set[str]:
    (folder / "part.py").write_text(source, encoding="utf-8")
    return {*codes(folder)}


@pytest.mark.parametrize(
    "source",
    [
        "raise E('said', code='found_one')",
        "class E(KakiteError):\n    code = 'found_one'",
        "def f(text: str, code: str = 'found_one'): ...",
        "def f(text, *, code='found_one'): ...",
        "FailureCode = Literal[\n    'found_one',  # why\n]",
        "class R:\n    status: int\n    code: str\nR(401, 'found_one')",
        "class E(Exception):\n    def __init__(self, code, text): ...\nclass F(E): ...\nF('found_one', 'x')",
        "def refused(status, code): ...\nrefused(403, 'found_one')",
        "def f(s):\n    code = {404: 'found_one'}.get(s, 'other_one')",
        "T = {1: ('found_one', 'words')}\ndef f(n):\n    code, words = T.get(n, ('x', ''))\n    E(code=code)",
        "T = {1: ('found_one', 'words')}\ndef f():\n    for k, (code, words) in T.items(): E(code=code)",
        "def why(t):\n    return 'found_one' if t else 'other_one'\ndef f(t): E(code=why(t))",
        "def tell(kind): E(code=kind)\ndef f(): tell('found_one')",
        "def f(): return {'error': {'code': 'found_one', 'message': ''}}",
        "def f(found): E(code=found.code or 'found_one')",
    ],
)
def test_a_code_is_found_however_it_is_made(source: str, tmp_path: Path) -> None:
    assert "found_one" in made_of(tmp_path, source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Codes: ``found_one``."""',
        "x = error.code == 'found_one'",
        "def f(path, code): ...\nf('found_one', 'other')",
        "T = {'found_one': ('other', '')}\ndef f(n):\n    code, _ = T[n]\n    E(code=code)",
    ],
)
def test_what_is_no_code_is_not_taken_for_one(source: str, tmp_path: Path) -> None:
    assert "found_one" not in made_of(tmp_path, source)


def test_every_code_that_a_docstring_promises_is_found() -> None:
    promised = {
        name
        for package in ("src", "testing/src")
        for file in (ROOT / package).glob("**/*.py")
        for told in re.findall(
            r"^ *Codes?: (.*?)(?:\"\"\"|\n\n)", file.read_text(encoding="utf-8"), re.S | re.M
        )
        for name in re.findall(r"``([a-z]+_[a-z_]+)``", told)
    }
    assert len(promised) > 30
    assert promised <= {*reference.codes()}


def test_a_code_that_no_page_explains_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = reference.codes()
    assert {"near_miss", "forge_conflict", "model_auth", "refused", "http_forbidden", "silent"} <= {*known}
    monkeypatch.setattr(reference, "codes", lambda: {**known, "never_told": "a.py:1"})
    with pytest.raises(SystemExit, match=r"never_told \(a.py:1\)"):
        reference.code_page()


def test_a_code_of_a_page_that_nothing_makes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {code: place for code, place in reference.codes().items() if code != "stale"}
    monkeypatch.setattr(reference, "codes", lambda: left)
    with pytest.raises(SystemExit, match="makes: stale"):
        reference.code_page()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| `busy`, `stale` | too late | |", "says the same of"),
        ("| `busy` | too late | no |", "says yes or no of busy"),
    ],
)
def test_codes_share_no_words_and_say_more_than_yes_or_no(
    row: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"# Part\n\n| code | meaning | rare |\n| --- | --- | --- |\n{row}\n"
    (tmp_path / "part.md").write_text(table, encoding="utf-8")
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    monkeypatch.setattr(reference, "codes", lambda: dict.fromkeys(re.findall(r"`(\w+)`", row), "a.py:1"))
    with pytest.raises(SystemExit, match=said):
        reference.code_page()


def test_only_tables_of_codes_are_read_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "| key | |\n| --- | --- |\n| `busy` | a key |\n"
    tables = f"{keys}\n| code | retryable |\n| --- | --- |\n| `stale` | yes |\n"
    (tmp_path / "part.md").write_text(tables, encoding="utf-8")
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    assert {code: rows[0].rest for code, rows in reference.coded().items()} == {
        "stale": "Trying again may help"
    }


def test_every_meaning_is_a_sentence_with_links_that_lead_on() -> None:
    rows = re.findall(r"^\| `\w+` \| (.*?) \|", reference.code_page(), re.MULTILINE)
    assert len(rows) > 200
    for meaning in rows:
        for part in meaning.split("<br>"):
            said = re.sub(r"^\*[\w-]+:\* ", "", part)
            assert not said[0].islower(), meaning
            assert not re.search(r"see below|as in \w+:|\]\(#|\]\(\w+\.md", said), meaning


# --- tools and events


TOOLS = {
    tool.name: (server, tool)
    for server, tools in offered.tools(reference.SOURCE).items()
    for tool in tools
    if server != "kakite serve --split-editor"
}
TOLD_OF = {
    "kakite serve": "tools",
    "kakite debate serve": "debate-server",
    "kakite collab": "collab",
    "kakite host": "host-approval",
    "kakite chat": "session-tools",
}


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_of_a_tool_is_documented_where_the_tool_is(name: str) -> None:
    server, tool = TOOLS[name]
    about = [
        each
        for each in re.split(r"^(?=##+ )", page(TOLD_OF[server]), flags=re.MULTILINE)
        if f"`{name}`" in each
    ]
    for argument in tool.parameters["properties"]:
        assert any(re.search(rf"`(?:[^`\n]*\W)?{argument}\b", each) for each in about), argument


def test_a_new_tool_cannot_be_forgotten(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    new = tmp_path / "tools/new.py"
    new.write_text("NEW = Tool(name='new')", encoding="utf-8")
    assert [*offered.tool_constants(tmp_path)] == [("tools/new.py", "NEW")]
    new.write_text("def f():\n    return Tool(name='new')", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"tools/new.py:2 makes a tool"):
        list(offered.tool_constants(tmp_path))
    (tmp_path / "elsewhere.py").write_text("NEW = Tool(name='new')", encoding="utf-8")
    new.unlink()
    with pytest.raises(SystemExit, match="no server is known"):
        offered.tools(tmp_path)


def test_every_tool_is_in_the_reference_also_those_that_stand_for_others() -> None:
    told = reference.tool_page()
    assert {"search_tools", "call_tool", "set_workspace", "page_suggestions"} <= {*TOOLS}
    for name in (*TOOLS, "text_editor_view", "text_editor_undo_edit"):
        assert f"### `{name}`\n" in told


def test_a_tool_whose_annotations_do_not_tell_needs_words(tmp_path: Path) -> None:
    asks = Tool(name="asks", description="", parameters={}, effect="read", open_world=True)
    with pytest.raises(SystemExit, match="asks"):
        reference.does(asks)
    said = {name: reference.does(tool) for name, (_, tool) in TOOLS.items()}
    assert "CLIs" in said["start_debate"]
    assert "CLIs" in said["step"]
    assert "no file" in said["set_workspace"]
    assert said["write_files"] == "Changes files."


def test_no_line_of_a_description_runs_into_a_list() -> None:
    lines = reference.tool_page().splitlines()
    for before, line in pairwise(lines):
        assert not (before.startswith("- ") and line and not line.startswith(("- ", "  "))), line


def test_new_events_cannot_be_forgotten(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("Event = Begun | Ended\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"new.py has events"):
        offered.events(tmp_path)


def _told_of_fields(place: str, event: str) -> str:
    """Return what the documentation says of an event: its row, or where events have no names, the section."""
    name, _, anchor = place.partition("#")
    (section,) = (
        each
        for each in re.split(r"^##+ ", page(name.removesuffix(".md")), flags=re.M)
        if each.lower().startswith(anchor)
    )
    rows = [line for line in section.splitlines() if not event or line.startswith(f"| `{event}` |")]
    return "\n".join(rows)


FIELDS = [
    (place, event, field)
    for place, told in offered.fields(reference.SOURCE).items()
    for event, names in told.items()
    for field in names
]


@pytest.mark.parametrize(("place", "event", "field"), FIELDS)
def test_every_field_of_an_event_is_documented(place: str, event: str, field: str) -> None:
    assert f"`{field}`" in _told_of_fields(place, event)


def test_fields_are_found_of_every_event() -> None:
    named = {(place, event) for place, event, _ in FIELDS}
    place = "agent-web.md#events"
    assert {event for where, event in named if where == place} == {*offered.events(reference.SOURCE)[place]}
    assert ("host-approval.md#traces", "", "waited") in FIELDS
    assert ("agent-web.md#events", "state", "cost_usd") in FIELDS


def test_what_a_debate_prints_is_collected_from_what_prints_it(tmp_path: Path) -> None:
    (tmp_path / "cli/debate").mkdir(parents=True)
    (tmp_path / "cli/debate/new.py").write_text("print_json({'type': 'novel', 'x': 1})", encoding="utf-8")
    assert "novel" in offered.events(tmp_path)["debate.md#lines-of-json"]


def _site(built: Path, folder: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    shutil.copytree(built, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    with (folder / "docs/index.md").open("a", encoding="utf-8") as start:
        start.write(more)
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run(
        [zensical, "build", "--strict"],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


def test_the_site_is_built_of_every_page_and_nothing_foreign(built: Path, tmp_path: Path) -> None:
    done = _site(built, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "docs").glob("**/*.md"):
        built = (tmp_path / "site" / page.relative_to(tmp_path / "docs")).with_suffix(".html")
        if page.name == "README.md":
            built = built.with_name("index.html")
        told = built.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?://", told), page.name
        # Reachable from the menu, which is on every page.
        menu = (tmp_path / "site/index.html").read_text(encoding="utf-8")
        assert f'href="./{built.relative_to(tmp_path / "site")}"' in menu or page.name == "index.md", (
            page.name
        )


def test_a_link_that_leads_nowhere_stops_the_site(built: Path, tmp_path: Path) -> None:
    done = _site(built, tmp_path, "\n[x](nowhere.md)\n\n[x](edit.md#not-there)\n")
    assert done.returncode != 0
    told = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "nowhere" in told
    assert "not-there" in told


def test_every_link_between_the_pages_leads_somewhere(built: Path) -> None:
    # A page that git keeps leads to none that only the site has.
    for file in [*stored(), *built.glob("**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"
            assert file.is_relative_to(built) or not target.startswith("reference/"), f"{file.name}: {target}"


def tables_cut_short(text: str) -> list[str]:
    """Return the rows that begin a table and are not followed by the line below a table's head."""
    lines = ["", *re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines(), ""]
    return [
        line
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if line.startswith("|") and not before.startswith("|") and not re.match(r"\|(?: ?:?-+:? ?\|)+", after)
    ]


def test_no_table_is_cut_by_a_blank_line(built: Path) -> None:
    assert tables_cut_short("| a | b |\n| --- | --- |\n| c | d |\n\n| e | f |\n") == ["| e | f |"]
    for file in [*stored(), *built.glob("reference/*.md")]:
        assert tables_cut_short(file.read_text(encoding="utf-8")) == [], file.name


def test_a_link_that_is_a_command_leads_to_where_the_command_is_told_of() -> None:
    for file in ROOT.glob("docs/*.md"):
        links = re.findall(r"\[`(kakite [a-z ]+)[^`\]]*`\]\(([\w-]+)\.md", file.read_text(encoding="utf-8"))
        for command, target in links:
            assert re.search(rf"`{command.strip()}\b", page(target)), f"{file.name}: {command} in {target}"


def test_the_instructions_are_as_long_as_the_page_says() -> None:
    said = {2: "two", 3: "three", 4: "four"}[len(re.findall(r"\.(?:\s|$)", INSTRUCTIONS))]
    assert f"`instructions` say in {said} sentences" in page("serve")


def test_every_code_of_a_missing_extra_is_named_where_extras_are() -> None:
    codes_of = {
        code
        for code, found in reference.coded().items()
        if any(re.search(r"pip install ['\"](?:kakite|\.)\[", row.rest) for row in found)
    }
    assert codes_of == {"missing_extra", "model_no_library"}
    assert all(f"`{code}`" in page("install") for code in codes_of)


COUNTED: Sequence[Mapping[str, str]] = (
    {"en": "two seconds", "ja": "2 秒以内", "zh": "两秒之内"},
    {"en": "every byte", "ja": "1 バイトも変えません", "zh": "一个字节"},
)
"""Numbers that one language writes in digits and another in words."""
NAMES = (
    r"Kakite|Linux|macOS|Windows|Python|Markdown|GitHub|GitLab|MCP|SDK|BOM|Apache|[Cc]laude|codex|docker|podman"
    r"|pip\b|uv\b|git\b"
)


def _outline(text: str, language: str = "en") -> dict[str, list[str]]:
    """Return what translations of a page have in common."""
    blocks = "".join(re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE))
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    words = " ".join(re.sub(r"`[^`\n]+`|\]\([^)]*\)", "", prose).split())
    counted = [each["en"] for each in COUNTED if words.count(each[language]) == 1]
    for each in COUNTED:
        words = words.replace(each[language], "")
    return {
        "counted": counted,
        "names": sorted(re.findall(NAMES, words)),
        "all figures": sorted(re.findall(r"\d+(?: \d{3})*(?:\.\d+)*", words)),
        "headings": re.findall(r"^#+(?= )", prose, re.MULTILINE),
        "numbers": re.findall(r"^#+ (\d)", prose, re.MULTILINE),
        "commands": [line.partition("  #")[0].rstrip() for line in blocks.splitlines()],
        "links": re.findall(r"\]\(([^)]*)\)", prose),
        "rows": re.findall(r"^\|(?= )", prose, re.MULTILINE),
        "points": re.findall(r"^-(?= )", prose, re.MULTILINE),
        "figures": sorted(re.findall(r"\d[\d .–]*%|\d+ \d{3}", prose)),
        "code": sorted(" ".join(each.split()) for each in re.findall(r"`([^`]+)`", prose)),
    }


def readme(language: str = "") -> str:
    return (ROOT / f"README{language and '.'}{language}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_a_translation_of_the_readme_says_the_same(language: str) -> None:
    english = _outline(readme())
    assert len(english["counted"]) == len(COUNTED)
    assert _outline(readme(language), language) == english


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("Python 3.11 以降", "Python 3.9 以降"),
        ("2 秒以内", "9 秒以内"),
        ("誤ったファイルは 0", "誤ったファイルは 5"),
        (" Linux、", " Windows、"),
        ("7 つ", "8 つ"),
    ],
)
def test_a_translation_that_says_something_else_is_found(said: str, instead: str) -> None:
    japanese = readme("ja")
    assert said in japanese
    assert _outline(japanese.replace(said, instead), "ja") != _outline(readme())


def test_chinese_has_chinese_punctuation_and_no_code_is_broken_over_two_lines() -> None:
    for file in ROOT.glob("README*.md"):
        prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert [each for each in re.findall(r"`[^`]+`", prose) if "\n" in each] == [], file.name
    text = re.sub(r"`[^`\n]+`", "`", (ROOT / "README.zh.md").read_text(encoding="utf-8"))
    assert re.findall(r".*(?:[一-鿿）][,:;?!]|[,:;?!][一-鿿（]).*", text) == []


def test_every_anchor_of_a_link_is_a_heading_of_its_page(built: Path) -> None:
    for file in [*stored(), *built.glob("**/*.md")]:
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


def test_the_versions_of_other_peoples_programs_are_those_that_are_tested() -> None:
    held = json.loads((ROOT / "tests/clients/clis/package.json").read_text(encoding="utf-8"))["dependencies"]
    for name, place, words in (
        ("@earendil-works/pi-coding-agent", "clients", r"\| pi \|.*the real program, (\d+\.\d+)"),
        ("@openai/codex", "clients", r"\| Codex \|.*the real program, (\d+\.\d+)"),
        ("pi-mcp-adapter", "clients", r"MCP adapter (\d+\.\d+)"),
        ("@openai/codex", "debate-server", r"real codex (\d+\.\d+)"),
        ("@anthropic-ai/claude-code", "debate-server", r"claude (\d+\.\d+\.\d+)"),
    ):
        said = re.findall(words, page(place))
        assert said, name
        assert all(f"{held[name]}.".startswith(f"{each}.") for each in said), name

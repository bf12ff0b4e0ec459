"""Every command line, settings file and value in JSON that the pages show is one that Kakite takes.

Nothing is run here: lines go through the command line's own parser, files through what reads them.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from typer._click.exceptions import BadOptionUsage, MissingParameter, NoArgsIsHelpError, UsageError

from kakite import errors
from kakite.cli.app import build_command
from kakite.cli.settings import ConfigError, load_settings
from kakite.debate.participants.factory import create_participant
from kakite.host.config.load import get_user_file, load_config
from kakite.host.policy.rules import parse_rule
from kakite.models.scripted_model import Scenario

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
# Not the changelog: what it tells of may have gone since.
PAGES = [*ROOT.glob("docs/*.md"), *(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md")]
TAKEN = (
    "",
    "console",
    "sh",
    "shell",
    "bash",
    "python",
    "json",
    "jsonl",
    "yaml",
    "toml",
    "markdown",
    "text",
    "lisp",
    "lua",
)
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LANGUAGES_OF_SHELLS = ("", "console", "sh", "shell", "bash")


def shown(*languages: str) -> Iterator[tuple[str, str]]:
    """Yield where each block of these languages is, as page and line, and its text."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in FENCE.finditer(text):
            if block[1] in languages:
                line = text.count("\n", 0, block.start()) + 1
                yield f"{page.relative_to(ROOT)}:{line}", block[2]


def blocks(*languages: str) -> list[Any]:
    found = [pytest.param(text, id=place) for place, text in shown(*languages)]
    assert found
    return found


# --- command lines


def words_for_kakite(line: str) -> list[list[str]]:
    """Return what each ``kakite`` of a line is given, however it is started there."""
    bare = re.sub(r"(?<!\S)…(?!\S)", "", line)
    reader = shlex.shlex(bare, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    reader.commenters = ""
    commands: list[list[str]] = [[]]
    for word in reader:
        if word.startswith("#"):
            break
        if re.fullmatch(r"[|&;]+", word):
            commands.append([])
        else:
            commands[-1].append(word)
    found: list[list[str]] = []
    for command in commands:
        if "kakite" in command:
            # In `claude mcp add kakite -- kakite serve` the first one is a name.
            begin = len(command) - command[::-1].index("kakite")
            found.append([*_without_files(command[begin:])])
    return found


def _without_files(words: Sequence[str]) -> Iterator[str]:
    for before, word in zip(("", *words), words, strict=False):
        if not (re.fullmatch("[<>]+", before) or re.fullmatch("[<>]+", word)):
            yield word


def parse(words: Sequence[str], *, whole: bool = True) -> None:
    """Parse words as the program does; of what is not ``whole``, arguments and commands may be missing.

    Raises:
        UsageError: the program would refuse them.
    """
    program: Any = build_command()
    if any([*words] == [option] for each in program.params for option in each.opts):
        return  # Parsing these does what they say: --install-completion installs.
    rest, parent, name, command = [*words], cast("Any", None), "kakite", program
    try:
        while True:
            parent = command.make_context(name, rest, parent=parent)
            rest = [*parent._protected_args, *parent.args] if hasattr(command, "commands") else []
            if not rest:
                return
            name, command, rest = command.resolve_command(parent, rest)
            if name not in words and rest and re.fullmatch(r"\w*[a-z]", rest[0]):
                raise UsageError(f"`{rest[0]}` is no command; a question has more words than one")
    except (MissingParameter, NoArgsIsHelpError):
        if whole:
            raise
    except BadOptionUsage as error:
        if whole or "requires an argument" not in error.message:
            raise


def typed() -> list[Any]:
    """Return the lines that pages tell to type; those that go with an answer begin with ``$``."""
    found: list[Any] = []
    for place, text in shown(*LANGUAGES_OF_SHELLS):
        lines = [line.strip() for line in text.replace("\\\n", "").splitlines()]
        if any(line.startswith("$ ") for line in lines):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        else:
            lines = [line for line in lines if line.startswith("kakite ")]
        commands = [words for line in lines for words in words_for_kakite(line)]
        found += [pytest.param(words, id=f"{place}-{' '.join(words)}") for words in commands]
    return found


@pytest.mark.parametrize("words", typed())
def test_every_line_that_a_page_tells_to_type_is_one_that_kakite_takes(words: list[str]) -> None:
    parse(words)


def named() -> list[Any]:
    """Return the commands that stand in the pages' sentences."""
    found: dict[str, Any] = {}
    for page in PAGES:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for line in re.findall(r"`(kakite [^`]*)`", prose):
            for words in words_for_kakite(re.sub(r"[\[\]…]", "", line).replace("NUMBER", "1")):
                found.setdefault(f"{page.name}-{line}", pytest.param(words, id=f"{page.name}-{line}"))
    return [*found.values()]


@pytest.mark.parametrize("words", named())
def test_every_command_that_a_sentence_names_is_one_that_kakite_takes(words: list[str]) -> None:
    parse(words, whole=False)


def test_enough_is_found_to_be_tried() -> None:
    assert len(typed()) >= 35
    assert len(named()) >= 120
    assert {language for page in PAGES for language, _ in FENCE.findall(page.read_text("utf-8"))} <= {*TAKEN}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cat a | kakite edit a.py --dif > b", "--dif"),
        ("kakite host call files list --argz '{}'", "--argz"),
        ("kakite agent export 1f --html a --jsonnl b", "--jsonnl"),
        ("kakite debate runer --host 172.17.0.1", "no command"),
        ("kakite debate runer", "no command"),
        ("kakite debate runner serve", "unexpected"),
        ("claude mcp add kakite -- kakite serv --root .", "No such command"),
        ("kakite sandbox prune --all yes", "unexpected"),
        ("kakite agent run x --repo . --max-turns many", "integer"),
        ("kakite host call files", "Missing"),
        ("kakite undo --run", "requires an argument"),
    ],
)
def test_a_line_that_kakite_would_refuse_is_found(line: str, said: str) -> None:
    (words,) = words_for_kakite(line)
    with pytest.raises((UsageError, errors.UsageError)) as refused:
        parse(words)
    error = refused.value
    assert said in (error.format_message() if isinstance(error, UsageError) else error.message)


# --- files and values


def read_yaml(file: Path) -> None:
    """Read a file of settings, a script of a model or a job, as who it is for does."""
    text = file.read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    if "turns" in found:
        Scenario.parse(text)
        return
    if {"jobs", "include"} & {*found}:
        read_job(found)
        return
    environ = {"KAKITE_CONFIG": str(file), "XDG_CONFIG_HOME": "/nowhere", "ANTHROPIC_API_KEY": "none"}
    settings = load_settings({}, environ)
    for name, given in settings.debate_participants.items():
        create_participant(name, environ, given)
    for repository in found.get("repositories", ()):
        load_settings({}, environ, repository=repository)


def read_job(found: dict[str, Any]) -> None:
    """Read a workflow of GitHub or a file of GitLab: our parts are there, and get what they know."""
    for included in found.get("include", ()):
        assert (ROOT / included["file"]).is_file()
    steps = [step for job in found.get("jobs", {}).values() for step in job["steps"]]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    for step in steps:
        assert {*step["with"]} <= {*inputs}
        assert {name for name, told in inputs.items() if told.get("required")} <= {*step["with"]}
    assert steps or found.get("include")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_yaml_of_a_page_is_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kakite.yaml"
    file.write_text(text, encoding="utf-8")
    read_yaml(file)


def read_json(text: str, folder: Path) -> None:
    """Read JSON as what it is for: rules, a file of servers, or a value with parts left out."""
    found: Any = json.loads(text.replace("{…}", "{}").replace("[…]", "[]"))
    if isinstance(found, list):
        for each in cast("list[object]", found):
            parse_rule(each)
    elif {"servers", "mcpServers"} & {*found}:
        environ = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
        file = get_user_file(environ)  # the person's own: what is said of trust counts only there
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        config = load_config(folder, environ)
        assert config.entries
        # Only another editor can ask for what it calls inputs.
        assert [each.message for each in config.problems if "inputs" not in found] == []


@pytest.mark.parametrize("text", blocks("json"))
def test_every_json_of_a_page_is_read(text: str, tmp_path: Path) -> None:
    read_json(text, tmp_path)


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_toml_of_a_page_is_that_of_a_server(text: str) -> None:
    (server,) = tomllib.loads(text)["mcp_servers"].values()
    assert server["command"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("servers: []\nzz: 1\n", "unknown_setting"),
        ("text_editor_mcp: {on_failure: stop}\n", "bad_setting"),
        ("repositories: {x: {zz: 1}}\n", "unknown_setting"),
        ("a: [\n", "unreadable_config"),
    ],
)
def test_a_file_that_kakite_would_refuse_is_found(text: str, code: str, tmp_path: Path) -> None:
    file = tmp_path / "kakite.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((ConfigError, yaml.YAMLError)) as refused:
        read_yaml(file)
    assert getattr(refused.value, "code", "unreadable_config") == code

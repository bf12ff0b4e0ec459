"""Loads settings: flags over environment over files over defaults.

Files: the one that ``KAKITE_CONFIG`` names, else ``kakite.yaml`` in the current folder; below it the person's
own ``~/.config/kakite/kakite.yaml``. Each of the person's own may have sections for some repositories. A
``kakite.yaml`` that merely lies in the current folder may come with somebody's repository: it can narrow
what is allowed, never widen it, name a model or an address.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from kakite.cli.settings_file import get_user_settings_file
from kakite.errors import UsageError
from kakite.models.model import Effort
from kakite.processes import Network

if TYPE_CHECKING:
    from kakite.agent.run.deps import ToolSettings
    from kakite.models.options import ModelOptions

Approve = Literal["ask", "edits", "all"]
OnFailure = Literal["continue", "fail"]
_LEVELS: Mapping[str, int] = {
    name: width for kind in (Approve, Network) for width, name in enumerate(get_args(kind))
}
"""Of each setting with levels, how much a level allows."""


class ConfigError(UsageError):
    """A setting is unknown or makes no sense.

    Codes: ``unknown_setting``, ``bad_setting``, ``unreadable_config``.
    """

    code = "bad_setting"
    setting = ""
    """The setting that is meant, where it is one."""

    def with_setting(self, setting: object) -> ConfigError:
        """Name the setting that is meant."""
        self.setting = str(setting)
        return self


def _split(value: object) -> object:
    """Return the list that a variable's text stands for."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    from kakite.sandbox.egress.policy import build_policy

    try:
        build_policy(hosts)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return hosts


def _check_credentials(credentials: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    from kakite.sandbox.egress.credentials import check_credentials

    try:
        check_credentials(credentials)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return credentials


def _check_requests(requests: tuple[str, ...]) -> tuple[str, ...]:
    from kakite.sandbox.egress.credentials import parse_request_rule

    try:
        for text in requests:
            parse_request_rule(text)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return requests


def _check_base_url(address: str) -> str:
    if address and not address.startswith(("http://", "https://")):
        raise ValueError("an address begins with http:// or https://, such as http://127.0.0.1:8080/v1")
    return address


PositiveAmount = Annotated[float | None, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int | None, Field(ge=1)]


def _parse_block(value: object) -> object:
    """Return the block that a variable's text stands for, or one that was written as a single word."""
    value = _parse_list(value)
    return {"enabled": value} if isinstance(value, bool) else value


def _parse_list(value: object) -> object:
    """Return the list that a variable's text stands for, as YAML."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"it is not YAML: {_format_error(error)}") from error


_QUOTED = re.compile(r"'(?P<said>[^']*)'|\"[^\"]*\"")
"""What PyYAML's reasons quote: names of its own, single characters, or a piece of the text."""


def _format_error(error: Exception) -> str:
    """Return what is wrong with a text. Nothing of the text is in it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        why = error.problem or error.context or "it is not YAML"
        return f"line {error.problem_mark.line + 1}: {_QUOTED.sub(_hide_text, why)}"
    return str(error)


def _hide_text(quoted: re.Match[str]) -> str:
    said = quoted["said"] or ""
    return quoted[0] if len(said) == 1 or said.startswith("<") else "…"


def _parse_names(value: object) -> object:
    """Return the names that a variable's text stands for, with what it says of each."""
    return _parse_block(value) if isinstance(value, str) else value


def _parse_commands(value: object) -> object:
    """Return the commands of each pattern as a list, also a single one."""
    found = _parse_names(value)
    if not isinstance(found, dict):
        return found
    patterns = cast("dict[str, object]", found)
    return {name: [said] if isinstance(said, str) else said for name, said in patterns.items()}


def _check_commands(commands: dict[str, list[str]]) -> dict[str, list[str]]:
    from kakite.tools.after_edit import parse_after_edit_commands

    parse_after_edit_commands(commands)
    return commands


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if words and not words[0].strip():
        raise ValueError("the first word must name a program, but is empty")
    return words


Hosts = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_hosts)]


Credentials = Annotated[
    dict[str, Annotated[tuple[str, ...], BeforeValidator(_split)]],
    BeforeValidator(_parse_names),
    AfterValidator(_check_credentials),
]
Requests = Annotated[tuple[str, ...], BeforeValidator(_parse_list), AfterValidator(_check_requests)]


Format = Literal["auto", "quote", "anchors", "patch"]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


class EditorServerSettings(BaseModel):
    """Another editor than Kakite's: an MCP server that is started inside of the sandbox."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("text-editor", min_length=1, max_length=64, description="The server's name")
    command: Annotated[tuple[str, ...], AfterValidator(_check_words)] = Field(
        (), description="The command that starts it, as a list of words; empty: Kakite's own editor"
    )


class TextEditorSettings(BaseModel):
    """The editor of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="Whether the run has an editor; if it has one, the servers of forges are not offered",
    )
    on_failure: OnFailure = Field(
        "continue", description="If the editor does not start: `continue` with commands only, or `fail`"
    )
    mcp_server: EditorServerSettings = Field(
        default_factory=lambda: EditorServerSettings.model_validate({}), description="The editor's MCP server"
    )


class HookSettings(BaseModel):
    """A program that runs at some moments of a session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    event: Literal["before_call", "after_call", "turn_start", "turn_end"] = Field(description="When it runs")
    command: Annotated[tuple[str, ...], AfterValidator(_check_words)] = Field(
        min_length=1, description="The command, as a list of words; no shell is between"
    )
    tools: str = Field("*", description="For which tools: a glob over their names")
    timeout: float = Field(10.0, gt=0, le=600, description="Seconds after which it is ended")


def _parse_headers(value: object) -> object:
    """Return the headers that a variable's text or a flag's lines stand for."""
    from kakite.models.options import check_spelling

    if isinstance(value, (list, tuple)):
        lines = [str(line).partition(":") for line in cast("Sequence[object]", value)]
        if any(not colon for _, colon, _ in lines):
            raise ValueError("a header is written `NAME: VALUE`")
        check_spelling(name.strip() for name, _, _ in lines)
        return {name.strip(): text.strip() for name, _, text in lines}
    found = _parse_names(value)
    texts = cast("dict[object, object]", found).values() if isinstance(found, dict) else ()
    if not all(isinstance(text, str) for text in texts):
        # Not pydantic's words: what lacks its blank behind the colon is a name, and may hold a key.
        raise ValueError("a header is written `NAME: VALUE`, and its value is a text")
    return cast("object", found)


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    from kakite.models.options import check_header, check_spelling

    for name, value in headers.items():
        check_header(name, value)
    check_spelling(headers)
    return headers


def _check_body(body: dict[str, Any]) -> dict[str, Any]:
    from kakite.models.options import check_body

    check_body(body)
    return body


Temperature = Annotated[float | None, Field(ge=0, le=2, allow_inf_nan=False)]
Headers = Annotated[dict[str, str], BeforeValidator(_parse_headers), AfterValidator(_check_headers)]
Body = Annotated[dict[str, JsonValue], BeforeValidator(_parse_names), AfterValidator(_check_body)]


class ModelOptionsSettings(BaseModel):
    """What is added to the requests to some models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    effort: Effort | None = Field(None, description="How much the model thinks")
    temperature: Temperature = Field(None, description="How much chance is in the answers")
    extra_headers: Headers = Field(default_factory=dict, description="Further headers")
    extra_body: Body = Field(default_factory=dict, description="Further fields of the body")


class Settings(BaseModel):
    """Every setting; the field's name is its key in ``kakite.yaml``, ``KAKITE_`` before it its variable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("", description="The language model, `PROVIDER:NAME`")
    base_url: Annotated[str, AfterValidator(_check_base_url)] = Field(
        "", description="Address of a server that speaks the provider's API"
    )
    sandbox: str = Field(
        "auto",
        description="Where commands run: `auto`, `container`, `container:IMAGE`, `bubblewrap` or `local`",
    )
    approve: Approve = Field(
        "ask",
        description="What runs without asking you: `ask` (only reading), `edits` (also changes to files) or "
        "`all`",
    )
    max_turns: int = Field(
        100, ge=1, description="Stop a run after this many replies of the model; you can resume it"
    )
    network: Network = Field(
        "off",
        description="What commands can reach: `off` (nothing), `registries` (package registries) or `open` "
        "(all public addresses)",
    )
    hosts: Hosts = Field(
        (), description="More hosts to allow with `registries`: `name`, `*.name` or `name:port`"
    )
    credentials: Credentials = Field(
        default_factory=dict,
        description="Secrets for hosts, which commands can use and not see: `VARIABLE: [HOST, …]`",
    )
    requests: Requests = Field(
        (), description="The only requests to allow to some hosts: `HOST/PATH` or `GET,POST HOST/PATH`"
    )
    setup: Literal["auto", "off"] = Field(
        "auto", description="Whether Kakite first installs what the project needs"
    )
    context_tokens: Annotated[int | None, Field(ge=4000)] = Field(
        None, description="The model's context window in tokens, where Kakite does not know it or is wrong"
    )
    effort: Effort | None = Field(
        None,
        description="How much the model thinks: `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`",
    )
    temperature: Temperature = Field(
        None, description="How much chance is in the model's answers: 0 to 2, where the model takes one"
    )
    extra_headers: Headers = Field(
        default_factory=dict,
        description="Headers to add to the requests to the model's provider; `${NAME}` is a variable",
    )
    extra_body: Body = Field(
        default_factory=dict, description="Fields to add to the requests to the model's provider"
    )
    model_options: Annotated[dict[str, ModelOptionsSettings], BeforeValidator(_parse_names)] = Field(
        default_factory=dict,
        description="`effort`, `temperature`, `extra_headers` and `extra_body` by patterns of models",
    )
    retry_minutes: Annotated[float, Field(ge=0, le=1440)] = Field(
        10, description="How many minutes to wait for the model's provider when it is busy or down"
    )
    tool_calls: Literal["auto", "native", "fenced"] = Field(
        "auto",
        description="How the model calls tools: `native` (in its provider's form) or `fenced` (as fenced "
        "JSON)",
    )
    budget_usd: PositiveAmount = Field(None, description="Limit for a task's cost, in US dollars")
    budget_tokens: Count = Field(None, description="Limit for a task's tokens, read and written")
    budget_minutes: PositiveAmount = Field(None, description="Limit for a task's working time, in minutes")
    budget_calls: Count = Field(None, description="Limit for a task's tool calls")
    daily_usd: PositiveAmount = Field(
        None, description="Limit for the cost of all tasks in a day, in US dollars"
    )
    daily_tokens: Count = Field(None, description="Limit for the tokens of all tasks in a day")
    daily_minutes: PositiveAmount = Field(
        None, description="Limit for the working time of all tasks in a day, in minutes"
    )
    daily_calls: Count = Field(None, description="Limit for the tool calls of all tasks in a day")
    text_editor_mcp: Annotated[TextEditorSettings, BeforeValidator(_parse_block)] = Field(
        default_factory=lambda: TextEditorSettings.model_validate({}),
        description="The editor of a run: `enabled`, `on_failure`, `mcp_server`",
    )
    edit_format: Annotated[Format | dict[str, Format], BeforeValidator(_parse_names)] = Field(
        "auto",
        description="How a run's model names the text to edit, also by patterns of models; `auto`: what "
        "works best with the model",
    )
    require_read: bool = Field(
        default=False, description="Whether a run's model must read a file before it edits it"
    )
    after_edit: Annotated[
        dict[str, list[str]], BeforeValidator(_parse_commands), AfterValidator(_check_commands)
    ] = Field(
        default_factory=dict,
        description="Commands to run on files after `kakite serve` or `kakite edit` wrote them, by file "
        "pattern",
    )
    hooks: Annotated[tuple[HookSettings, ...], BeforeValidator(_parse_list)] = Field(
        (), description="Programs of yours that run at moments of a session, each with `event` and `command`"
    )
    notify: Literal["off", "bell", "desktop"] = Field(
        "off",
        description="How `kakite chat` tells you that it is your move: `off`, `bell` or `desktop` (a "
        "notification too, where the terminal has them)",
    )
    servers: Names = Field(
        (), description="More MCP servers that the model may use, by their names in your own files"
    )
    debate_sides: Names = Field(("codex", "claude"), description="Who takes part in a debate, by name")
    debate_participants: Annotated[dict[str, dict[str, object]], BeforeValidator(_parse_names)] = Field(
        default_factory=dict, description="More participants, or other commands for the known ones, by name"
    )
    history_days: int = Field(30, ge=1, le=36_500, description="Days after which Kakite forgets edits")
    collab_memory: int = Field(
        48_000,
        ge=0,
        le=10_000_000,
        description="Bytes of a page's conversation that its assistant's model is sent; 0: none",
    )
    collab_origins: Names = Field(
        (), description="Addresses of proxies through which people open shared pages"
    )
    collab_people: Annotated[
        dict[str, dict[str, Literal["none", "read", "write"]]], BeforeValidator(_parse_names)
    ] = Field(default_factory=dict, description="Who may read or write which pages, by the people's names")
    collab_oidc: Annotated[dict[str, str], BeforeValidator(_parse_names)] = Field(
        default_factory=dict, description="Who signs people in for shared pages: `issuer`, `client`, `claim`"
    )
    collab_proxy_header: str = Field("", description="Header in which a proxy says who signed in")
    collab_proxy_addresses: Names = Field((), description="Addresses of proxies whose header Kakite trusts")


_EDITOR = "text_editor_mcp"
REPOSITORIES = "repositories"
"""The section with settings for some repositories. Only in files that are the person's own."""
EDITOR_ENABLED = "TEXT_EDITOR_MCP_ENABLED"
EXTRA_KEYS: Mapping[str, str] = {
    REPOSITORIES: "Settings for single repositories, by path or address; only in your own files",
}
"""What a file may have besides settings."""
EXTRA_VARIABLES: Mapping[str, str] = {
    EDITOR_ENABLED: "Whether runs have an editor, like `enabled` in `text_editor_mcp`",
}
"""Variables that say a setting besides the one that has its name."""


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str] = os.environ,
    *,
    repository: str = "",
) -> Settings:
    """Return the settings in force; flags that are None were not given.

    ``repository`` is the path or address, without credentials, that the sections of files are chosen by.

    Raises:
        ConfigError: a file cannot be read, or a setting is unknown or wrong. The message names where.
    """
    values: dict[str, object] = {}
    _merge_file(values, _read_file(get_user_settings_file(environ)), repository)
    if named := environ.get("KAKITE_CONFIG"):
        _merge_file(values, _read_file(Path(named), required=True), repository)
    else:
        _narrow(values, _read_file(Path("kakite.yaml")))
    _merge_values(values, _read_environment(environ))
    given = {name: value for name, value in flags.items() if value is not None}
    check_flags(given)
    return _validate({**values, **given}, "the settings")


def load_user_settings(environ: Mapping[str, str] = os.environ, *, repository: str = "") -> Settings:
    """Return the settings of the person's own files, whatever the current folder says.

    Raises:
        ConfigError: as ``load_settings``.
    """
    values: dict[str, object] = {}
    _merge_file(values, _read_file(get_user_settings_file(environ)), repository)
    if named := environ.get("KAKITE_CONFIG"):
        _merge_file(values, _read_file(Path(named), required=True), repository)
    return _validate(values, "the settings")


def load_user_commands(environ: Mapping[str, str], repository: str) -> dict[str, list[str]]:
    """Return the commands of the person's own for files that were edited.

    Raises:
        ConfigError: as ``load_settings``.
    """
    if said := environ.get("KAKITE_AFTER_EDIT"):
        return _validate({"after_edit": said}, "`KAKITE_AFTER_EDIT`").after_edit
    return load_user_settings(environ, repository=repository).after_edit


def _read_environment(environ: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if value := environ.get(EDITOR_ENABLED):
        _validate({_EDITOR: {"enabled": value}}, f"`{EDITOR_ENABLED}`")
        found[_EDITOR] = {"enabled": value}
    for name in Settings.model_fields:
        if value := environ.get(f"KAKITE_{name.upper()}"):
            _validate({name: value}, f"`KAKITE_{name.upper()}`")
            _merge_values(found, {name: value})
    return found


def _merge_values(values: dict[str, object], over: Mapping[str, object]) -> None:
    """Put settings over others; of a block, what is not said stays."""
    for name, value in over.items():
        below = values.get(name)
        above = _parse_block(value) if name == _EDITOR else value
        if name == _EDITOR and isinstance(below, dict) and isinstance(above, dict):
            values[name] = _merge_blocks(cast("dict[str, object]", below), cast("dict[str, object]", above))
        else:
            values[name] = above


def _merge_blocks(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            inner = cast("dict[str, object]", below[key]), cast("dict[str, object]", above[key])
            merged[key] = _merge_blocks(*inner)
    return merged


def _merge_file(values: dict[str, object], found: dict[str, object], repository: str) -> None:
    """Take what a file of the person's says, and over it what it says for this repository."""
    sections = cast("dict[str, dict[str, object]]", found.pop(REPOSITORIES, {}))
    _merge_values(values, found)
    for pattern, section in sections.items():
        if repository and fnmatchcase(repository, pattern):
            _merge_values(values, section)


def build_tool_settings(settings: Settings) -> ToolSettings:
    """Return what the settings say of the editor and of further servers."""
    from kakite.agent.run.deps import EditorSettings, ToolSettings

    said = settings.text_editor_mcp
    choice = EditorSettings(
        enabled=said.enabled,
        on_failure=said.on_failure,
        name=said.mcp_server.name,
        command=said.mcp_server.command,
    )
    return ToolSettings(
        editor=choice,
        edit_format=settings.edit_format,
        require_read=settings.require_read,
        servers=settings.servers,
    )


def build_model_options(settings: Settings, model: str = "") -> tuple[ModelOptions, ...]:
    """Return what is added to requests, the stronger later.

    What is said for no pattern counts for the provider of the model: no other one is to get its headers.
    """
    from kakite.models.options import ModelOptions

    provider = (model or settings.model).partition(":")[0]
    own = ModelOptions(
        models=f"{provider}:*",
        temperature=settings.temperature,
        headers=settings.extra_headers,
        body=cast("dict[str, Any]", settings.extra_body),
    )
    by_pattern = (
        ModelOptions(
            models=pattern,
            effort=each.effort,
            temperature=each.temperature,
            headers=each.extra_headers,
            body=cast("dict[str, Any]", each.extra_body),
        )
        for pattern, each in settings.model_options.items()
    )
    says_something = own != ModelOptions(models=own.models)
    return (*by_pattern, own) if says_something else tuple(by_pattern)


def build_all_model_options(settings: Settings) -> tuple[ModelOptions, ...]:
    """Return what is added to requests where no task says how much a model thinks, the stronger later."""
    from kakite.models.options import ModelOptions

    return (*build_model_options(settings), ModelOptions(effort=settings.effort))


_FLAGS: Mapping[str, str] = {"extra_headers": "--header", "extra_body": "--body"}
"""The flags of settings that have another name."""


def check_flags(given: Mapping[str, object]) -> Settings:
    """Return the settings that flags name, checked one by one; all others are as nobody asked for them.

    Raises:
        ConfigError: one of them makes no sense. The message names the flag.
    """
    for name, value in given.items():
        try:
            Settings.model_validate({name: value})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            flag = _FLAGS.get(name) or f"--{name.replace('_', '-')}"
            raise ConfigError(f"`{flag}`: {_format_reason(first['msg'])}") from error
    return check_settings(given)


def check_settings(values: Mapping[str, object]) -> Settings:
    """Return these settings, checked; all others are as nobody asked for them.

    Raises:
        ConfigError: one of them makes no sense.
    """
    return _validate(values, "the settings")


def _read_file(path: Path, *, required: bool = False) -> dict[str, object]:
    if not required and not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        found: Any = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: a 13th month
        raise ConfigError(
            f"`{path}` cannot be read: {_format_error(error)}", code="unreadable_config"
        ) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"`{path}` must hold settings, one `name: value` per line")
    values = cast("dict[str, object]", found)
    with _add_line_number(f"`{path}`", text):
        _check_names(values, (*Settings.model_fields, REPOSITORIES), f"`{path}`")
        _check_values({name: value for name, value in values.items() if name != REPOSITORIES}, f"`{path}`")
    sections: object = values.get(REPOSITORIES, {})
    if not isinstance(sections, dict):
        raise ConfigError(f"`{path}`: `{REPOSITORIES}` must hold settings below addresses of repositories")
    for pattern, section in cast("dict[object, object]", sections).items():
        where = f"`{path}`, `{REPOSITORIES}`, `{pattern}`"
        if not isinstance(pattern, str) or not isinstance(section, dict):
            raise ConfigError(f"{where}: write an address, and settings below it")
        with _add_line_number(where, text, REPOSITORIES, pattern):
            _check_values(cast("dict[str, object]", section), where)
    return values


def find_broken_files(environ: Mapping[str, str] = os.environ) -> Iterator[ConfigError]:
    """Return what is wrong with the files of settings that count here, one error for each file."""
    named = environ.get("KAKITE_CONFIG")
    for path in (get_user_settings_file(environ), Path(named or "kakite.yaml")):
        try:
            _read_file(path, required=str(path) == named)
        except ConfigError as error:
            yield error


@contextmanager
def _add_line_number(where: str, text: str, *blocks: str) -> Generator[None]:
    """Add to an error of a setting on which line of the file it stands, within these blocks."""
    try:
        yield
    except ConfigError as error:
        if line := _find_line((*blocks, error.setting), text):
            error.message = error.message.replace(where, f"{where}, line {line}", 1)
            error.args = (error.message,)
        raise


def _find_line(keys: Iterable[str], text: str) -> int:
    """Return on which line a key of a file begins, 0 for a key that does not stand there as it is."""
    node = _compose(text)
    line = 0
    for key in keys:
        pairs: Sequence[tuple[yaml.Node, yaml.Node]] = ()
        if isinstance(node, yaml.MappingNode):
            pairs = node.value
        found = next((pair for pair in pairs if pair[0].value == key), None)
        if found is None:
            return 0
        name, node = found
        line = name.start_mark.line + 1
    return line


def _compose(text: str) -> yaml.Node | None:
    compose: Callable[..., yaml.Node | None] = cast("Any", yaml).compose
    return compose(text, Loader=yaml.SafeLoader)


def _check_values(values: Mapping[str, object], where: str) -> None:
    _check_names(values, Settings.model_fields, where)
    _validate(values, where)


def _check_names(values: Iterable[str], known: Collection[str], where: str) -> None:
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(known)}"
            error = ConfigError(f"{where}: there is no setting `{name}`", hint=hint, code="unknown_setting")
            raise error.with_setting(name)


def _validate(values: Mapping[str, object], where: str) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            *block, key = first["loc"]
            raise _build_unknown_error(".".join(map(str, block)), str(key), where).with_setting(
                first["loc"][0]
            ) from error
        raise ConfigError(f"{where}: `{name}`: {_format_reason(first['msg'])}").with_setting(
            first["loc"][0]
        ) from error


def _format_reason(said: str) -> str:
    return said.removeprefix("Value error, ").replace("Input should be", "it takes")


_BLOCKS: Mapping[str, type[BaseModel]] = {
    _EDITOR: TextEditorSettings,
    f"{_EDITOR}.mcp_server": EditorServerSettings,
}


def _build_unknown_error(block: str, key: str, where: str) -> ConfigError:
    try:
        _check_names([key], _BLOCKS[block].model_fields if block else Settings.model_fields, where)
    except ConfigError as error:
        name = f"{block}.{key}" if block else key
        return ConfigError(f"{where}: there is no setting `{name}`", hint=error.hint, code="unknown_setting")
    raise AssertionError(key)


def _narrow(values: dict[str, object], found: Mapping[str, object]) -> None:
    present = _validate(values, "the settings")
    wanted = _validate(
        {name: value for name, value in found.items() if name != REPOSITORIES}, "`kakite.yaml`"
    )
    for name in found:
        if _is_narrower(name, present, wanted):
            _merge_values(values, {name: found[name]})
        else:
            typer.echo(
                f"kakite.yaml: `{name}` is ignored: a repository's file may only restrict what is allowed; "
                "if the file is yours, KAKITE_CONFIG=kakite.yaml uses all of it",
                err=True,
            )


def _is_narrower(name: str, present: Settings, wanted: Settings) -> bool:
    match name:
        case "approve" | "network":
            return _LEVELS[getattr(wanted, name)] <= _LEVELS[getattr(present, name)]
        case "hosts" | "servers":
            return set(getattr(wanted, name)) <= set(getattr(present, name))
        case "text_editor_mcp":
            return _is_no_wider(wanted.text_editor_mcp, present.text_editor_mcp)
        case "setup":
            return wanted.setup == "off" or present.setup == "auto"
        case _ if name == "max_turns" or name.startswith(("budget_", "daily_")):
            return _is_lower(getattr(wanted, name), getattr(present, name))
        case "sandbox":
            return wanted.sandbox == present.sandbox or _is_isolating(wanted.sandbox)
        case _:
            return False


def _is_lower(wanted: float | None, present: float | None) -> bool:
    """Return whether a limit is no higher than another; None is no limit at all."""
    return present is None or (wanted is not None and wanted <= present)


def _is_no_wider(wanted: TextEditorSettings, present: TextEditorSettings) -> bool:
    """Return whether a repository asks for no more than to stop where the editor is missing.

    Without an editor servers of forges would be offered, so it cannot turn that off; nor on, since that may
    start a program.
    """
    stricter = {"on_failure"} if wanted.on_failure == "fail" else set[str]()
    said = wanted.model_fields_set - stricter
    server = wanted.mcp_server
    return all(getattr(wanted, name) == getattr(present, name) for name in said - {"mcp_server"}) and all(
        getattr(server, name) == getattr(present.mcp_server, name) for name in server.model_fields_set
    )


def _is_isolating(sandbox: str) -> bool:
    """Return whether this is a kind that isolates, with nothing in it but what Kakite itself puts there.

    Any other image may hold what is none of the repository's business.
    """
    from kakite.sandbox.backends import images

    ours = {"container", *(f"container:{name}" for name in images.NAMES)}
    return sandbox == "bubblewrap" or sandbox in ours

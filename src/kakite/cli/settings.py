"""Settings: flags over environment over files over defaults.

Files: the one that ``KAKITE_CONFIG`` names, else ``kakite.yaml`` in the current folder; below it the person's
own ``~/.config/kakite/kakite.yaml``. A ``kakite.yaml`` that merely lies in the current folder may come with
somebody's repository: it can narrow what is allowed, never widen it, name a model or an address.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kakite.errors import UsageError

Approve = Literal["ask", "edits", "all"]
_WIDTH: Mapping[str, int] = {name: width for width, name in enumerate(get_args(Approve))}


class ConfigError(UsageError):
    """A setting is unknown or makes no sense.

    Codes: ``unknown_setting``, ``bad_setting``, ``unreadable_config``.
    """

    code = "bad_setting"


class Settings(BaseModel):
    """Every setting; the field's name is its key in ``kakite.yaml``, ``KAKITE_`` before it its variable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("", description="The language model, `PROVIDER:NAME`")
    base_url: str = Field("", description="Address of an API that speaks the provider's format")
    sandbox: str = Field("auto", description="Where commands run: `auto`, `bubblewrap` or `local`")
    approve: Approve = Field(
        "ask",
        description="What goes without a question: `ask` nothing but looking, `edits` "
        "changes of files too, `all` everything",
    )
    max_turns: int = Field(100, ge=1, description="Replies of the model after which a run stops, resumable")


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in force; flags that are None were not given.

    Raises:
        ConfigError: a file cannot be read, or a setting is unknown or wrong. The message names where.
    """
    values: dict[str, object] = {}
    own = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kakite" / "kakite.yaml"
    values.update(_file(own))
    if named := environ.get("KAKITE_CONFIG"):
        values.update(_file(Path(named), required=True))
    else:
        _narrow(values, _file(Path("kakite.yaml")))
    for name in Settings.model_fields:
        if value := environ.get(f"KAKITE_{name.upper()}"):
            values[name] = value
    values.update({name: value for name, value in flags.items() if value is not None})
    return _checked(values, "the settings")


def check_approve(name: str) -> Approve:
    """Return the value of ``approve`` that this is.

    Raises:
        ConfigError: it is none.
    """
    return _checked({"approve": name}, "the settings").approve


def _file(path: Path, *, required: bool = False) -> dict[str, object]:
    if not required and not path.is_file():
        return {}
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"`{path}` cannot be read: {error}", code="unreadable_config") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"`{path}` must hold settings, one `name: value` a line")
    values = cast("dict[str, object]", found)
    for name in values:
        if name not in Settings.model_fields:
            near = difflib.get_close_matches(str(name), Settings.model_fields, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(Settings.model_fields)}"
            raise ConfigError(f"`{path}`: there is no setting `{name}`", hint=hint, code="unknown_setting")
    _checked(values, f"`{path}`")
    return values


def _checked(values: Mapping[str, object], where: str) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{where}: `{name}`: {first['msg']}") from error


def _narrow(values: dict[str, object], found: Mapping[str, object]) -> None:
    present = _checked(values, "the settings")
    wanted = _checked(found, "`kakite.yaml`")
    for name in found:
        if _narrows(name, present, wanted):
            values[name] = found[name]
        else:
            typer.echo(
                f"kakite.yaml: `{name}` is left out, since a repository may only narrow what is allowed; "
                "if the file is yours, KAKITE_CONFIG=kakite.yaml takes all of it",
                err=True,
            )


def _narrows(name: str, present: Settings, wanted: Settings) -> bool:
    match name:
        case "approve":
            return _WIDTH[wanted.approve] <= _WIDTH[present.approve]
        case "max_turns":
            return wanted.max_turns <= present.max_turns
        case "sandbox":
            return wanted.sandbox not in {"local", "auto"} or wanted.sandbox == present.sandbox
        case _:
            return False

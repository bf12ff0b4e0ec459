"""What a person adds to the requests to some models: a temperature, headers, fields of the body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from kakite.models.model import Effort, ModelConfigError
from kakite.redaction import SHORTEST_SECRET, is_secret_name
from kakite.tools.toolset import JsonObject

TEMPERATURE_HINT: Final = (
    "leave `--temperature` out, or set `temperature` in `model_options` for the models that take one"
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_SECRET_VALUE: Final = re.compile(
    r"[ \t]*(?:(?i:api-?key|basic|bearer|bot|digest|key|token)[ \t]+)?"
    r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\})+[ \t]*"
)
"""A scheme of authentication, if any, and variables without defaults: all else may be a secret."""
_OF_THE_CONNECTION: Final = frozenset(
    ("connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade")
)
_OF_THE_REQUEST: Final = frozenset(
    ("contents", "input", "instructions", "messages", "model", "stream", "system", "tools")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What is added to the requests to the models that a pattern names."""

    models: str = "*"
    """A glob over ``PROVIDER:NAME``."""
    effort: Effort | None = None
    """How much the model thinks. None: as the provider does it."""
    temperature: float | None = None
    """None: as the provider does it."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values may have ``${NAME}`` or ``${NAME:-default}``, which mean variables of the environment."""
    body: JsonObject = field(default_factory=dict)


def choose_options(spec: str, known: Iterable[ModelOptions]) -> ModelOptions:
    """Return what is added to the requests to ``PROVIDER:NAME``: of two that say the same, the later one."""
    chosen = ModelOptions(models=spec)
    for each in known:
        if fnmatchcase(spec, each.models):
            chosen = ModelOptions(
                models=spec,
                effort=each.effort or chosen.effort,
                temperature=chosen.temperature if each.temperature is None else each.temperature,
                headers={**_drop_headers(chosen.headers, each.headers), **each.headers},
                body={**chosen.body, **each.body},
            )
    return chosen


def check_header(name: str, value: str) -> None:
    """Refuse a header that cannot be sent, or whose value would lie open where a secret belongs.

    Raises:
        ValueError: the text says why.
    """
    if not _HEADER_NAME.fullmatch(name):  # it may hold a secret: nothing of it is shown
        raise ValueError("the name of a header has characters that no header can have, or is empty")
    if name.lower() in _OF_THE_CONNECTION:
        raise ValueError(f"`{name}` is no header that you can set")
    if is_secret_name(name) and not _SECRET_VALUE.fullmatch(value):
        raise ValueError(
            f"the value of `{name}` is a secret: write ${{NAME}} for a variable that has it, without a "
            "default, and nothing but a word such as `Bearer` before it"
        )
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(f"the value of `{name}` has characters that no header can have")


def check_spelling(names: Iterable[str]) -> None:
    """Refuse two headers of one name, which small and capital letters do not tell apart.

    Raises:
        ValueError: the text says which.
    """
    known: dict[str, str] = {}
    for name in filter(_HEADER_NAME.fullmatch, names):
        if before := known.get(name.lower()):
            raise ValueError(f"`{before}` and `{name}` are one header: give it once")
        known[name.lower()] = name


def check_body(body: JsonObject) -> None:
    """Refuse fields that Kakite itself makes.

    Raises:
        ValueError: the text says which.
    """
    if wrong := next((name for name in body if name in _OF_THE_REQUEST), None):
        raise ValueError(f"Kakite makes `{wrong}` itself")


def expand_headers(
    headers: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the headers with the values of their variables, and all that must not be shown.

    That is what variables hold, and all of a header that is a secret by its name. Not what is shorter than
    six characters: it would blank out half of an error.

    Raises:
        ModelConfigError: a variable is not set, or its value cannot be sent, or two headers have one name. No
            value is shown.
    """
    _check_names(headers)
    secrets: set[str] = set()

    def resolve(found: re.Match[str]) -> str:
        if value := environ.get(found[1]):
            secrets.add(value.strip())
            return value
        if found[2] is None:
            raise ModelConfigError(
                f"the variable `{found[1]}`, which a header of the model's requests names, is not set",
                hint=f"set {found[1]} in the environment, or write ${{{found[1]}:-}} if it may be empty",
                code="model_unset_variable",
            )
        return found[2]

    expanded = {name: _REFERENCE.sub(resolve, value).strip() for name, value in headers.items()}
    for name, value in expanded.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise ModelConfigError(
                f"once its variables are expanded, the header `{name}` cannot be sent",
                hint="a header's value is one line of ASCII characters",
                code="model_bad_option",
            )
    secrets |= {value for name, value in expanded.items() if is_secret_name(name)}
    return expanded, frozenset(each for each in secrets if len(each) >= SHORTEST_SECRET)


def _check_names(headers: Mapping[str, str]) -> None:
    try:
        check_spelling(headers)
    except ValueError as error:
        raise ModelConfigError(
            str(error),
            hint="names of headers are the same in small and capital letters",
            code="model_bad_option",
        ) from None


def _drop_headers(headers: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without those that others replace, however they are spelt."""
    replaced = {name.lower() for name in over}
    return {name: value for name, value in headers.items() if name.lower() not in replaced}

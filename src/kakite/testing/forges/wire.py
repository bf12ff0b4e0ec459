"""What goes over the wire between a client and a fake forge, as values, and what can be made to go wrong."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlencode

PER_PAGE: Final = 30
_MOST_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    """With the prefix of the API, without the query, still quoted."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names in lower case. What is kept afterwards has ``[redacted]`` for a secret."""
    body: bytes = b""
    status: int = 0
    """What it was answered with; 0 if the connection was dropped."""

    @property
    def json(self) -> Any:
        """The body, decoded; None if there is none."""
        return json.loads(self.body) if self.body else None

    def value(self, name: str, default: str = "") -> str:
        """Return the last value of a parameter of the query."""
        return dict(self.query).get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a face answers."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def etag(self) -> str:
        """A name of this very answer."""
        told = json.dumps([self.body, self.headers.get("link", "")], sort_keys=True)
        return f'W/"{hashlib.sha256(told.encode()).hexdigest()}"'


class Refusal(Exception):  # noqa: N818 - an answer of the forge, not an error of ours
    """The forge says no."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Any] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers or {})


@dataclass(slots=True, kw_only=True)
class Fault:
    """Something that goes wrong on demand, with the next requests that fit."""

    status: int | None = None
    """What is answered instead; None: the connection is dropped, or with ``delay`` alone only late."""
    message: str = "made to fail"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = ""
    """Only requests of this method; empty: of any."""
    path: str = ""
    """Only requests whose path holds this expression."""
    times: int = 1
    delay: float = 0.0
    """Seconds before anything is answered."""
    after: bool = False
    """The request is carried out first, and only its answer is lost."""
    drop: bool = False
    """The connection ends in the middle of an answer."""
    body: bytes | None = None
    """Sent as it is, in place of JSON."""

    def fits(self, asked: Asked) -> bool:
        """Whether it is meant for this request."""
        return (
            self.times > 0
            and self.method in {"", asked.method}
            and re.search(self.path, asked.path) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks."""

    login: str
    app: int | None = None
    """The App that a signed token is of: it may ask about itself alone."""
    installation: bool = False
    """An App in a repository: it has no account to ask about."""
    read_only: bool = False


class Contract(Protocol):
    """What the real forge says about requests and answers."""

    def question(self, asked: Asked) -> str | None:
        """Return what is wrong with a request; None if nothing is."""
        ...

    def answer(self, asked: Asked, reply: Reply) -> str | None:
        """Return what is wrong with an answer of the fake; None if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Route:
    """What answers one operation."""

    method: str
    pattern: re.Pattern[str]
    answer: Callable[..., Reply]
    """Takes ``(who, asked)`` and the parts of the path by name."""
    level: str
    """What the one who asks has to be allowed: ``read``, ``write``, or ``app``."""


def route(template: str, answer: Callable[..., Reply], level: str = "read") -> Route:
    """Return a route from ``"get /a/{b}"``."""
    method, _, path = template.partition(" ")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return Route(method.upper(), re.compile(f"{pattern}$"), answer, level)


def parts_of(found: re.Match[str]) -> dict[str, str]:
    """Return the named parts of a path, without quotes."""
    return {name: unquote(value) for name, value in found.groupdict().items()}


def paged(asked: Asked, items: Sequence[Any], base: str) -> tuple[list[Any], dict[str, str], int]:
    """Return one page of items, its ``Link`` header, and the number of pages."""
    size = min(max(int(asked.value("per_page", str(PER_PAGE))), 1), _MOST_PER_PAGE)
    page = max(int(asked.value("page", "1")), 1)
    last = max(-(-len(items) // size), 1)
    others = [(name, value) for name, value in asked.query if name not in {"page", "per_page"}]

    def link(number: int, relation: str) -> str:
        query = urlencode([*others, ("per_page", str(size)), ("page", str(number))])
        return f'<{base}{asked.path}?{query}>; rel="{relation}"'

    links = [link(page - 1, "prev")] if page > 1 else []
    links += [link(page + 1, "next"), link(last, "last")] if page < last else []
    headers = {"link": ", ".join(links)} if links else {}
    return list(items[(page - 1) * size : page * size]), headers, last

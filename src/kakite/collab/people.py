"""Who somebody is, and what they may do with which page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

Right = Literal["none", "read", "write"]
"""What somebody may do with a page; the later ones hold the earlier."""

RIGHTS: tuple[Right, ...] = get_args(Right)
EVERYBODY = "*"
"""Stands for every name, and every page."""

_COLORS = ("#30bced", "#6eeb83", "#ffbc42", "#e5566d", "#8acb88", "#1be7ff", "#a06cd5", "#ee6352", "#3d9970")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a person may do: of the patterns that a page's name fits, the longest decides."""

    pages: tuple[tuple[str, Right], ...] = ((EVERYBODY, "write"),)

    def of(self, page: str) -> Right:
        """Return what may be done with this page."""
        longest, found = -1, RIGHTS[0]
        for pattern, right in self.pages:
            if len(pattern) > longest and _fits(page, pattern):
                longest, found = len(pattern), right
        return found

    def may(self, page: str, right: Right) -> bool:
        """Tell whether so much may be done with this page."""
        return RIGHTS.index(self.of(page)) >= RIGHTS.index(right)

    @property
    def most(self) -> Right:
        """The most that may be done with any page."""
        given = [right for _, right in self.pages]
        return RIGHTS[max((RIGHTS.index(right) for right in given), default=0)]


ALL = Rights()
READING = Rights(pages=((EVERYBODY, "read"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who was let in."""

    name: str
    signed_in_by: Literal["link", "token", "proxy", "oidc"]
    rights: Rights = field(default_factory=Rights)

    @property
    def color(self) -> str:
        """The colour of their cursor: always the same for one name."""
        return _COLORS[hashlib.sha256(self.name.encode(errors="replace")).digest()[0] % len(_COLORS)]


def rights_of(name: str, told: Mapping[str, Mapping[str, Right]]) -> Rights:
    """Return the rights of a person by settings: theirs, or else everybody's, or else all."""
    if not told:
        return ALL
    own = told.get(name, told.get(EVERYBODY, {}))
    return Rights(pages=tuple(own.items()))


def _fits(page: str, pattern: str) -> bool:
    return pattern == EVERYBODY or fnmatchcase(page, pattern) or page.startswith(f"{pattern.rstrip('/')}/")

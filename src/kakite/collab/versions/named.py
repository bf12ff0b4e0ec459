"""Keeps the versions of a page that people gave a name."""

from __future__ import annotations

import base64
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kakite.errors import KakiteError

MAX_NAMED = 100
"""Named versions of a page."""
MAX_NAME = 120
"""Characters of a name."""
_MAX_BYTES = 4 * 1024 * 1024  # of all texts of a page, compressed


class VersionError(KakiteError):
    """A version cannot be had or kept.

    Codes: ``no_such_version``, ``too_many_versions``.
    """

    code = "no_such_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVersion:
    """A text of a page that somebody gave a name."""

    id: str
    name: str
    by: str
    time: float
    """Seconds since 1970."""
    packed: bytes
    """The text, compressed."""

    @property
    def text(self) -> str:
        """The text."""
        return zlib.decompress(self.packed).decode()

    def to_json(self) -> dict[str, object]:
        """Return it as it is stored."""
        packed = base64.b64encode(self.packed).decode()
        return {"id": self.id, "name": self.name, "by": self.by, "time": self.time, "packed": packed}


@dataclass(frozen=True, slots=True)
class NamedVersions:
    """Those of one page, the oldest first. A value."""

    all: tuple[NamedVersion, ...] = ()

    def add(self, text: str, *, name: str, by: str) -> NamedVersions:
        """Return these and one more, of this text, made now.

        Raises:
            VersionError: ``too_many_versions``: one has to be removed first.
        """
        made = NamedVersion(
            id=secrets.token_hex(4), name=name, by=by, time=time.time(), packed=zlib.compress(text.encode())
        )
        found = (*self.all, made)
        if len(found) > MAX_NAMED or sum(len(each.packed) for each in found) > _MAX_BYTES:
            raise VersionError(
                "this page has too many named versions, or too large ones",
                hint="remove one that you need no more",
                code="too_many_versions",
            )
        return NamedVersions(found)

    def remove(self, id: str) -> NamedVersions:  # noqa: A002 - the name that everybody knows it by
        """Return these without one.

        Raises:
            VersionError: there is none.
        """
        gone = self.get(id)
        return NamedVersions(tuple(each for each in self.all if each is not gone))

    def get(self, id: str) -> NamedVersion:  # noqa: A002
        """Return one.

        Raises:
            VersionError: there is none.
        """
        if found := next((each for each in self.all if each.id == id), None):
            return found
        raise VersionError(f"there is no version `{id}`", hint="ask for the list of versions")

    def to_json(self) -> list[dict[str, object]]:
        """Return all, to be stored."""
        return [each.to_json() for each in self.all]

    @classmethod
    def from_json(cls, stored: Sequence[Mapping[str, object]]) -> NamedVersions:
        """Read what ``to_json`` gave; what cannot be read is left out."""
        found: list[NamedVersion] = []
        for each in stored:
            try:
                packed = base64.b64decode(cast("str", each["packed"]))
                zlib.decompress(packed).decode()
                fields: dict[str, Any] = {**each, "packed": packed}
                found.append(NamedVersion(**fields))
            except (KeyError, TypeError, ValueError, zlib.error):
                continue
        return cls(tuple(found))

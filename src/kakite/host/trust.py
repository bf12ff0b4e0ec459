"""What the person agreed to: a project's servers, and the tools of every server, each bound to its digest.

Consent belongs to a project's folder and a server's name. What is the person's own (user scope) is accepted
as written, in every project; the tools of such a server are pinned when they are first seen. Kept is the
accepted form itself, so that a change can be shown; never a value of a variable.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from kakite.errors import KakiteError, OutsideError
from kakite.host.entries import Scope, ServerEntry
from kakite.host.forms import (
    definition_digest,
    definition_form,
    describe,
    difference,
    entry_digest,
    entry_form,
)
from kakite.processes import inside_a_run
from kakite.tools.toolset import JsonObject
from kakite.workspace import records

__all__ = [
    "Accepted",
    "Changed",
    "Consent",
    "ConsentError",
    "Consents",
    "New",
    "NotAPersonError",
    "Standing",
    "definition_digest",
    "describe",
    "entry_digest",
    "inside_a_run",
    "need_a_person",
]

WAIT = 10.0  # s, for other processes that write
_SOON = 0.05  # s after which the file is looked at again: calls come by the hundred a second
_MOST = 64 * 1024 * 1024  # bytes of the file


@dataclass(frozen=True, slots=True)
class Accepted:
    """The person agreed to exactly this."""


@dataclass(frozen=True, slots=True)
class New:
    """The person was never asked."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The person agreed to something else by this name."""

    diff: str
    """From what was accepted to what is there now; lines safe for a terminal, no secrets. Never empty."""


Standing = Accepted | New | Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What is kept of one server."""

    project: str
    """The folder that it is for; empty for a server of the person's own files."""
    server: str
    entry_at: str
    """When the entry was accepted, ISO 8601; empty if it was not."""
    tools: tuple[str, ...]
    """Names of the tools that are accepted or pinned, sorted."""


class ConsentError(OutsideError):
    """What the person agreed to cannot be read or written. Nothing counts as accepted then.

    Codes: ``consents_unusable``, ``consents_busy``.
    """

    code = "consents_unusable"


class NotAPersonError(KakiteError):
    """Something that Kakite runs tried to agree in the person's place. Code: ``person_required``."""

    code = "person_required"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    """What was accepted by one name."""

    digest: str
    form: JsonObject
    at: str


@dataclass(slots=True, kw_only=True)
class _Record:
    """What is kept of one server."""

    entry: _Pin | None = None
    tools: dict[str, _Pin] = field(default_factory=dict[str, _Pin])


class _Kept:
    """All that the file holds: by project's folder, then by server."""

    def __init__(self, projects: dict[str, dict[str, _Record]]) -> None:
        self.projects = projects

    def of(self, project: str, server: str) -> _Record:
        return self.projects.get(project, {}).get(server) or _Record()

    def opened(self, project: str, server: str) -> _Record:
        return self.projects.setdefault(project, {}).setdefault(server, _Record())


class Consents:
    """What the person agreed to, in a file of mode 0600 that several processes may use at once."""

    def __init__(self, folder: Path) -> None:
        """Keep it in this folder, which is made when something is first accepted."""
        self._folder = folder
        self._file = folder / "consents.json"
        self._seen: tuple[object, _Kept] = (None, _Kept({}))
        self._stamp: object = None
        self._stamped_at = -math.inf

    def entry_standing(self, entry: ServerEntry, project: Path) -> Standing:
        """Return whether a server may be started. The person's own entries always may.

        Raises:
            ConsentError: the file cannot be read.
        """
        if entry.origin.scope == "user":
            return Accepted()
        pin = self._known().of(_bound_to(entry.origin.scope, project), entry.name).entry
        return _standing(pin, entry_digest(entry), lambda: entry_form(entry))

    def accept_entry(self, entry: ServerEntry, project: Path) -> None:
        """Record that the person agreed to this entry as it is here.

        Raises:
            NotAPersonError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        need_a_person()
        pin = _Pin(digest=entry_digest(entry), form=entry_form(entry), at=_now())
        with self._changing() as kept:
            kept.opened(_bound_to(entry.origin.scope, project), entry.name).entry = pin

    def tool_standing(
        self,
        entry: ServerEntry,
        project: Path,
        definitions: Sequence[JsonObject],
        digests: Sequence[str] | None = None,
    ) -> Mapping[str, Standing]:
        """Return by name which of a server's tools may be offered.

        Tools of a server of the person's own are pinned here when its first ones are seen, and accepted by
        that. Of definitions that share a name the worst standing counts. ``digests`` are those of the
        definitions, for who has them: of many tools it takes a while to make them.

        Raises:
            ConsentError: the file cannot be read or written.
        """
        digests = [definition_digest(each) for each in definitions] if digests is None else digests
        project_key = _bound_to(entry.origin.scope, project)
        record = self._known().of(project_key, entry.name)
        if entry.origin.scope == "user" and not record.tools and definitions:
            record = self._pin_first(project_key, entry.name, _pins(definitions, digests))
        found: dict[str, Standing] = {}
        for definition, digest in zip(definitions, digests, strict=True):
            name = _name(definition)
            standing = _standing(record.tools.get(name), digest, partial(definition_form, definition))
            if isinstance(found.get(name, Accepted()), Accepted):
                found[name] = standing
        return found

    def definitions(self, entry: ServerEntry, project: Path) -> tuple[JsonObject, ...]:
        """Return a server's tools as they were accepted or pinned, sorted by name.

        Raises:
            ConsentError: the file cannot be read.
        """
        tools = self._known().of(_bound_to(entry.origin.scope, project), entry.name).tools
        return tuple(tools[name].form for name in sorted(tools))

    def stamp(self) -> object:
        """Return something that changes with what is kept; what another process changed counts soon after."""
        if time.monotonic() - self._stamped_at > _SOON:
            try:
                self._stamp = records.stamp(self._file)
            except OSError:
                self._stamp = None
            self._stamped_at = time.monotonic()
        return self._stamp

    def accept_tools(self, entry: ServerEntry, project: Path, definitions: Sequence[JsonObject]) -> None:
        """Record that the person agreed to these tools as they are here; others keep their standing.

        Raises:
            NotAPersonError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        need_a_person()
        with self._changing() as kept:
            record = kept.opened(_bound_to(entry.origin.scope, project), entry.name)
            record.tools.update(_pins(definitions, [definition_digest(each) for each in definitions]))

    def forget(self, server: str, project: Path, scope: Scope = "project") -> bool:
        """Forget what was agreed to of a server, its tools included; tell whether there was anything.

        Raises:
            ConsentError: it cannot be recorded.
        """
        with self._changing() as kept:
            return kept.projects.get(_bound_to(scope, project), {}).pop(server, None) is not None

    def listed(self) -> tuple[Consent, ...]:
        """Return all that is kept, sorted.

        Raises:
            ConsentError: the file cannot be read.
        """
        return tuple(
            Consent(
                project=project,
                server=server,
                entry_at=record.entry.at if record.entry else "",
                tools=tuple(sorted(record.tools)),
            )
            for project, records in sorted(self._read().projects.items())
            for server, record in sorted(records.items())
        )

    def _pin_first(self, project: str, server: str, pins: Mapping[str, _Pin]) -> _Record:
        with self._changing() as kept:
            record = kept.opened(project, server)
            if not record.tools:  # another process may have seen them first
                record.tools.update(pins)
            return record

    def _known(self) -> _Kept:
        """Return what is kept, not to be changed; the file is read when it is another one."""
        stamp = self.stamp()
        if stamp is None or self._seen[0] != stamp:
            self._seen = (stamp, self._read())
        return self._seen[1]

    def _read(self) -> _Kept:
        try:
            data = records.read(self._file, _MOST)
            return _Kept({} if data is None else _projects(json.loads(data)))
        except OSError as error:
            raise self._unusable(error) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._unusable(OSError(0, "it is not what Kakite wrote")) from error

    @contextmanager
    def _changing(self) -> Generator[_Kept]:
        """Yield what is kept for a change, which is written afterwards; nobody else writes meanwhile."""
        try:
            with records.locked(self._file.with_suffix(".lock"), WAIT):
                kept = self._read()
                yield kept
                records.replace(self._file, _written(kept))
                self._stamped_at = -math.inf
                self._seen = (self.stamp(), kept)  # nobody else replaces it before we let go of the lock
        except TimeoutError as error:
            raise ConsentError(
                f"`{self._file}` is being written by somebody else", hint="try again", code="consents_busy"
            ) from error
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConsentError:
        reason, hint = records.trouble(error, self._file)
        if not error.errno:  # it is there, and not to be believed
            hint = "make the file yours alone (mode 0600), or remove it and accept again"
        return ConsentError(f"what you agreed to, in `{self._file}`, cannot be used: {reason}", hint=hint)


def _standing(pin: _Pin | None, digest: str, form: Callable[[], JsonObject]) -> Standing:
    if pin is None:
        return New()
    if pin.digest == digest:
        return Accepted()
    return Changed(difference(pin.form, form()))


def need_a_person() -> None:
    """Refuse what only a person can agree to, if this is a program that Kakite runs.

    Raises:
        NotAPersonError: it is.
    """
    if inside_a_run():
        raise NotAPersonError(
            "only a person can agree to a server or its tools, and this is a program that Kakite runs",
            hint="ask the person to run `kakite host accept` in a terminal of their own",
        )


def _bound_to(scope: Scope, project: Path) -> str:
    return os.path.realpath(project) if scope == "project" else ""


def _name(definition: JsonObject) -> str:
    return str(definition.get("name", ""))


def _pins(definitions: Sequence[JsonObject], digests: Sequence[str]) -> dict[str, _Pin]:
    now = _now()
    return {
        _name(definition): _Pin(digest=digest, form=definition_form(definition), at=now)
        for definition, digest in zip(definitions, digests, strict=True)
    }


def _projects(value: Any) -> dict[str, dict[str, _Record]]:
    """Take apart what ``_written`` made; anything else raises what broken data raises."""
    if value["version"] != 1:
        raise ValueError
    return {
        project: {server: _record(record) for server, record in records.items()}
        for project, records in value["projects"].items()
    }


def _record(value: Any) -> _Record:
    return _Record(
        entry=None if value["entry"] is None else _pin(value["entry"]),
        tools={name: _pin(pin) for name, pin in value["tools"].items()},
    )


def _pin(value: Any) -> _Pin:
    digest, form, at = value["digest"], value["form"], value["at"]
    if not (isinstance(digest, str) and isinstance(form, dict) and isinstance(at, str)):
        raise TypeError
    return _Pin(digest=digest, form=cast("JsonObject", form), at=at)


def _written(kept: _Kept) -> bytes:
    # In one line, and no copies: a server may have ten thousand tools.
    return json.dumps({"version": 1, "projects": kept.projects}, default=_fields).encode()


def _fields(value: _Record | _Pin) -> JsonObject:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Stores the person's consent: to a project's servers and to every server's tools, bound to digests.

Consent belongs to a project's folder and a server's name. What is the person's own (user scope) is accepted
as written, in every project; the tools of such a server are pinned when they are first seen. The accepted
form itself is stored, so that a change can be shown; never a value of a variable.
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

from kakite import state_files
from kakite.errors import ExternalError, KakiteError
from kakite.host.config.model import Scope, ServerEntry
from kakite.host.consent.canonical import (
    canonicalize_definition,
    canonicalize_entry,
    compute_definition_digest,
    compute_entry_digest,
    describe,
    format_difference,
)
from kakite.processes import is_run_by_kakite
from kakite.tools.toolset import JsonObject

__all__ = [
    "ConsentError",
    "ConsentGranted",
    "ConsentMissing",
    "ConsentOutdated",
    "ConsentRecord",
    "ConsentState",
    "ConsentStore",
    "UserRequiredError",
    "compute_definition_digest",
    "compute_entry_digest",
    "describe",
    "is_run_by_kakite",
    "require_user",
]

LOCK_TIMEOUT = 10.0  # s, for other processes that write
_STAT_INTERVAL = 0.05  # s after which the file is looked at again: calls come by the hundred a second
_MAX_FILE_BYTES = 64 * 1024 * 1024  # bytes of the file


@dataclass(frozen=True, slots=True)
class ConsentGranted:
    """The person agreed to exactly this."""


@dataclass(frozen=True, slots=True)
class ConsentMissing:
    """The person was never asked."""


@dataclass(frozen=True, slots=True)
class ConsentOutdated:
    """The person agreed to something else by this name."""

    diff: str
    """From what was accepted to what is there now; lines safe for a terminal, no secrets. Never empty."""


ConsentState = ConsentGranted | ConsentMissing | ConsentOutdated


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRecord:
    """The record of one server."""

    project: str
    """The folder that it is for; empty for a server of the person's own files."""
    server: str
    entry_at: str
    """When the entry was accepted, ISO 8601; empty if it was not."""
    tools: tuple[str, ...]
    """Names of the tools that are accepted or pinned, sorted."""


class ConsentError(ExternalError):
    """The person's consent cannot be read or written. Nothing counts as accepted then.

    Codes: ``consents_unusable``, ``consents_busy``.
    """

    code = "consents_unusable"


class UserRequiredError(KakiteError):
    """Something that Kakite runs tried to agree in the person's place. Code: ``person_required``."""

    code = "person_required"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    """The pinned form of one name."""

    digest: str
    form: JsonObject
    at: str


@dataclass(slots=True, kw_only=True)
class _Record:
    """The stored record of one server."""

    entry: _Pin | None = None
    tools: dict[str, _Pin] = field(default_factory=dict[str, _Pin])


class _ConsentData:
    """All that the file holds: by project's folder, then by server."""

    def __init__(self, projects: dict[str, dict[str, _Record]]) -> None:
        self.projects = projects

    def get(self, project: str, server: str) -> _Record:
        return self.projects.get(project, {}).get(server) or _Record()

    def get_or_create(self, project: str, server: str) -> _Record:
        return self.projects.setdefault(project, {}).setdefault(server, _Record())


class ConsentStore:
    """The person's consent, in a file of mode 0600 that several processes may use at once."""

    def __init__(self, folder: Path) -> None:
        """Keep it in this folder, which is made when something is first accepted."""
        self._folder = folder
        self._file = folder / "consents.json"
        self._seen: tuple[object, _ConsentData] = (None, _ConsentData({}))
        self._stamp: object = None
        self._stamped_at = -math.inf

    def get_entry_state(self, entry: ServerEntry, project: Path) -> ConsentState:
        """Return whether a server may be started. The person's own entries always may.

        Raises:
            ConsentError: the file cannot be read.
        """
        if entry.origin.scope == "user":
            return ConsentGranted()
        pin = self._load_cached().get(_get_project_key(entry.origin.scope, project), entry.name).entry
        return _compare_pin(pin, compute_entry_digest(entry), lambda: canonicalize_entry(entry))

    def accept_entry(self, entry: ServerEntry, project: Path) -> None:
        """Record that the person agreed to this entry as it is here.

        Raises:
            UserRequiredError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        require_user()
        pin = _Pin(digest=compute_entry_digest(entry), form=canonicalize_entry(entry), at=_format_now())
        with self._open_for_update() as kept:
            kept.get_or_create(_get_project_key(entry.origin.scope, project), entry.name).entry = pin

    def get_tool_states(
        self,
        entry: ServerEntry,
        project: Path,
        definitions: Sequence[JsonObject],
        digests: Sequence[str] | None = None,
    ) -> Mapping[str, ConsentState]:
        """Return by name which of a server's tools may be offered.

        Tools of a server of the person's own are pinned here when its first ones are seen, and accepted by
        that. Of definitions that share a name the worst standing counts. ``digests`` are those of the
        definitions, for who has them: of many tools it takes a while to make them.

        Raises:
            ConsentError: the file cannot be read or written.
        """
        digests = [compute_definition_digest(each) for each in definitions] if digests is None else digests
        project_key = _get_project_key(entry.origin.scope, project)
        record = self._load_cached().get(project_key, entry.name)
        if entry.origin.scope == "user" and not record.tools and definitions:
            record = self._pin_first(project_key, entry.name, _build_pins(definitions, digests))
        found: dict[str, ConsentState] = {}
        for definition, digest in zip(definitions, digests, strict=True):
            name = _get_name(definition)
            standing = _compare_pin(
                record.tools.get(name), digest, partial(canonicalize_definition, definition)
            )
            if isinstance(found.get(name, ConsentGranted()), ConsentGranted):
                found[name] = standing
        return found

    def get_definitions(self, entry: ServerEntry, project: Path) -> tuple[JsonObject, ...]:
        """Return a server's tools as they were accepted or pinned, sorted by name.

        Raises:
            ConsentError: the file cannot be read.
        """
        tools = self._load_cached().get(_get_project_key(entry.origin.scope, project), entry.name).tools
        return tuple(tools[name].form for name in sorted(tools))

    def read_stamp(self) -> object:
        """Return something that changes with what is kept; what another process changed counts soon after."""
        if time.monotonic() - self._stamped_at > _STAT_INTERVAL:
            try:
                self._stamp = state_files.read_stamp(self._file)
            except OSError:
                self._stamp = None
            self._stamped_at = time.monotonic()
        return self._stamp

    def accept_tools(self, entry: ServerEntry, project: Path, definitions: Sequence[JsonObject]) -> None:
        """Record that the person agreed to these tools as they are here; others keep their standing.

        Raises:
            UserRequiredError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        require_user()
        with self._open_for_update() as kept:
            record = kept.get_or_create(_get_project_key(entry.origin.scope, project), entry.name)
            record.tools.update(
                _build_pins(definitions, [compute_definition_digest(each) for each in definitions])
            )

    def forget(self, server: str, project: Path, scope: Scope = "project") -> bool:
        """Forget what was agreed to of a server, its tools included; tell whether there was anything.

        Raises:
            ConsentError: it cannot be recorded.
        """
        with self._open_for_update() as kept:
            return kept.projects.get(_get_project_key(scope, project), {}).pop(server, None) is not None

    def list_records(self) -> tuple[ConsentRecord, ...]:
        """Return all that is kept, sorted.

        Raises:
            ConsentError: the file cannot be read.
        """
        return tuple(
            ConsentRecord(
                project=project,
                server=server,
                entry_at=record.entry.at if record.entry else "",
                tools=tuple(sorted(record.tools)),
            )
            for project, records in sorted(self._read().projects.items())
            for server, record in sorted(records.items())
        )

    def _pin_first(self, project: str, server: str, pins: Mapping[str, _Pin]) -> _Record:
        with self._open_for_update() as kept:
            record = kept.get_or_create(project, server)
            if not record.tools:  # another process may have seen them first
                record.tools.update(pins)
            return record

    def _load_cached(self) -> _ConsentData:
        """Return what is kept, not to be changed; the file is read when it is another one."""
        stamp = self.read_stamp()
        if stamp is None or self._seen[0] != stamp:
            self._seen = (stamp, self._read())
        return self._seen[1]

    def _read(self) -> _ConsentData:
        try:
            data = state_files.read(self._file, _MAX_FILE_BYTES)
            return _ConsentData({} if data is None else _parse_projects(json.loads(data)))
        except OSError as error:
            raise self._make_unusable_error(error) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._make_unusable_error(OSError(0, "it is not what Kakite wrote")) from error

    @contextmanager
    def _open_for_update(self) -> Generator[_ConsentData]:
        """Yield what is kept for a change, which is written afterwards; nobody else writes meanwhile."""
        try:
            with state_files.lock_file(self._file.with_suffix(".lock"), LOCK_TIMEOUT):
                kept = self._read()
                yield kept
                state_files.replace(self._file, _serialize(kept))
                self._stamped_at = -math.inf
                self._seen = (self.read_stamp(), kept)  # nobody else replaces it before we let go of the lock
        except TimeoutError as error:
            raise ConsentError(
                f"`{self._file}` is being written by another program", hint="try again", code="consents_busy"
            ) from error
        except OSError as error:
            raise self._make_unusable_error(error) from error

    def _make_unusable_error(self, error: OSError) -> ConsentError:
        reason, hint = state_files.explain_os_error(error, self._file)
        if not error.errno:  # it is there, and not to be believed
            hint = "make the file yours alone (mode 0600), or remove it and accept again"
        return ConsentError(f"what you agreed to, in `{self._file}`, cannot be used: {reason}", hint=hint)


def _compare_pin(pin: _Pin | None, digest: str, form: Callable[[], JsonObject]) -> ConsentState:
    if pin is None:
        return ConsentMissing()
    if pin.digest == digest:
        return ConsentGranted()
    return ConsentOutdated(format_difference(pin.form, form()))


def require_user() -> None:
    """Refuse what only a person can agree to, if this is a program that Kakite runs.

    Raises:
        UserRequiredError: it is.
    """
    if is_run_by_kakite():
        raise UserRequiredError(
            "only a person can agree to a server or its tools, and this is a program that Kakite runs",
            hint="ask the person to run `kakite host accept` in a terminal of their own",
        )


def _get_project_key(scope: Scope, project: Path) -> str:
    return os.path.realpath(project) if scope == "project" else ""


def _get_name(definition: JsonObject) -> str:
    return str(definition.get("name", ""))


def _build_pins(definitions: Sequence[JsonObject], digests: Sequence[str]) -> dict[str, _Pin]:
    now = _format_now()
    return {
        _get_name(definition): _Pin(digest=digest, form=canonicalize_definition(definition), at=now)
        for definition, digest in zip(definitions, digests, strict=True)
    }


def _parse_projects(value: Any) -> dict[str, dict[str, _Record]]:
    """Parse what ``_serialize`` made; anything else raises what broken data raises."""
    if value["version"] != 1:
        raise ValueError
    return {
        project: {server: _parse_record(record) for server, record in records.items()}
        for project, records in value["projects"].items()
    }


def _parse_record(value: Any) -> _Record:
    return _Record(
        entry=None if value["entry"] is None else _parse_pin(value["entry"]),
        tools={name: _parse_pin(pin) for name, pin in value["tools"].items()},
    )


def _parse_pin(value: Any) -> _Pin:
    digest, form, at = value["digest"], value["form"], value["at"]
    if not (isinstance(digest, str) and isinstance(form, dict) and isinstance(at, str)):
        raise TypeError
    return _Pin(digest=digest, form=cast("JsonObject", form), at=at)


def _serialize(kept: _ConsentData) -> bytes:
    # In one line, and no copies: a server may have ten thousand tools.
    return json.dumps({"version": 1, "projects": kept.projects}, default=_serialize_fields).encode()


def _serialize_fields(value: _Record | _Pin) -> JsonObject:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""What a task's story has done at its forge. With no forge, nothing is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from kakite.agent.address import Address, parse_address
from kakite.agent.desk import Desk
from kakite.agent.durable.blobs import Blobs
from kakite.agent.forges.forge import Forge
from kakite.agent.forges.names import Names, state_of
from kakite.agent.intake import Accepted, Refused, read_trigger
from kakite.agent.luggage import Luggage
from kakite.agent.outcome import Outcome, outcome_of
from kakite.agent.public import Failure, Public
from kakite.host.redaction import Redaction
from kakite.tools.toolset import JsonObject

BETWEEN = 10.0  # s between two reports that nothing urgent asks for

_LOCKED_OUT = frozenset(("paused", "stuck"))
"""Kinds of what a task asks that failed outside; tasks of older versions ask ``stuck``."""

OpenForge = Callable[[Mapping[str, Any]], Forge]


class Errands:
    """The desks of this worker's tasks."""

    def __init__(
        self,
        open_forge: OpenForge,
        names: Names,
        blobs: Blobs,
        redaction: Redaction,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_forge = open_forge
        self._clock = clock
        self._redaction = redaction
        self._names = names
        self.luggage = Luggage(blobs)
        """How runs are had that another machine has made."""
        self._forges: dict[str, Forge] = {}
        self._reported: dict[str, float] = {}
        self._hampered: set[str] = set()
        """Tasks of which people were told that they have no editor."""

    async def accept(self, start: JsonObject) -> Accepted | Refused | None:
        """Take the issue up; None: there is no forge.

        Raises:
            ForgeError: the forge cannot be asked.
        """
        forge = self._forge(start)
        if forge is None:
            return None
        desk = Desk(forge, self._names, start["id"], redaction=self._redaction)
        return await desk.accept(read_trigger(start["trigger"]))

    async def address(self, start: JsonObject, repository: str) -> Address:
        """Return where the code is, with credentials that are valid now.

        Raises:
            ForgeError: the forge cannot be asked.
        """
        forge = self._forge(start)
        if forge is None:
            return parse_address(repository)
        found = await forge.repository()
        if found.credentials is None:
            return Address(found.address)
        return Address(found.address, found.credentials.username, found.credentials.password)

    async def report(self, value: Any) -> JsonObject:
        """Bring the progress comment up to date: not too often, unless something is ``urgent``."""
        task: str = value["start"]["id"]
        soon = self._soon(task)
        desk = self._desk(value)
        if desk is None:
            return {"reported": False}
        await self._tell_editor(desk, value)
        if soon and not value["urgent"]:
            return {"reported": False}
        self._reported[task] = self._clock()
        told = {"pause": desk.pause, "go_on": desk.go_on, "": desk.report}[value["turn"]]
        await told(value["public"], value["ids"])
        return {"reported": True}

    def would_report(self, task: str, public: Mapping[str, object]) -> bool:
        """Tell whether a report that nothing urgent asks for would do anything now: each is a step."""
        return not self._soon(task) or bool(public.get("editor") and task not in self._hampered)

    def _soon(self, task: str) -> bool:
        return self._clock() - self._reported.get(task, -math.inf) < BETWEEN

    async def request(self, value: Any) -> JsonObject | None:
        """Find the pull request and bring it up to date, or open it as a draft."""
        desk = self._desk(value)
        if desk is None:
            return None
        outcome = await self._outcome(value)
        request = await desk.open_request(value["public"], draft=True, outcome=outcome)
        return None if request is None else dict(request)

    async def news(self, value: Any) -> JsonObject:
        """Return what people have written and want since."""
        desk = self._desk(value)
        if desk is None:
            return {"text": "", "seen": value["seen"], "ids": [], "wish": "go_on", "why": ""}
        found = await desk.news(value["seen"], request=_number(value["public"]))
        told = asdict(found)
        return {name: told[name] for name in ("text", "seen", "ids", "wish", "why")}

    async def answers(self, published: Mapping[str, Any]) -> list[JsonObject]:
        """Return what people have answered at the forge to what a task asks, as stories take it."""
        start: JsonObject = published["start"]
        desk, asks = self._desk(published), published["asks"]
        forge = self._forge(start)
        if desk is None or forge is None:
            return []
        found = await desk.news(published["seen"], request=_number(published), asks=asks)
        said = [
            _said(each.answer, each.reason, each.by, each.budget)
            for each in found.answers
            if each.digest == asks["digest"]
        ]
        if not said and found.wish == "stop":
            said = [_said("no", found.why or "the task was stopped at the forge")]
        if not said and asks["kind"] in _LOCKED_OUT and _was_locked_out(published):
            said = [_said("more", "the forge lets us in again")]  # as it has just shown
        if not said and asks["kind"] != "approval":
            issue = await forge.issue(published["issue"])
            if state_of(issue.labels, self._names) == "waiting":
                said = [_said("more", "")]  # the label was set again
        known = set(published["seen"])
        return [{**each, "seen": [token for token in found.seen if token not in known]} for each in said]

    async def close(self, value: Any) -> JsonObject:
        """Tell how it ended: the request ready for review, the final comment, the label."""
        start, public = value["start"], value["public"]
        self._reported.pop(start["id"], None)
        if value["accepted"] is None:
            return await self._withdraw(start, public)
        desk = self._desk(value)
        if desk is None:
            return {"request": None}
        await self._tell_editor(desk, value)
        self._hampered.discard(value["start"]["id"])
        outcome = await self._outcome(value)
        request = await desk.close(public, value["ids"], outcome=outcome)
        return {"request": None if request is None else dict(request)}

    async def _withdraw(self, start: JsonObject, public: Any) -> JsonObject:
        """Tell the end of a task of which nobody knows whether it was taken up: it is, and ends at once."""
        accepted = await self.accept(start)
        if isinstance(accepted, Accepted):
            desk = self._desk({"start": start, "accepted": asdict(accepted)})
            assert desk is not None
            about = {"title": accepted.title, "issue": accepted.issue, "branch": accepted.branch}
            await desk.close(cast("Public", {**public, **about}))
        return {"request": None}

    async def _tell_editor(self, desk: Desk, value: Any) -> None:
        """Tell that a run goes on without its editor. Once; another worker finds the comment there."""
        task: str = value["start"]["id"]
        editor: Failure | None = value["public"].get("editor")
        if editor and task not in self._hampered:
            await desk.tell_editor(editor, goes_on=True)
            self._hampered.add(task)

    def _desk(self, value: Mapping[str, Any]) -> Desk | None:
        start: JsonObject = value["start"]
        forge = self._forge(start)
        if forge is None:
            return None
        accepted = Accepted(**value["accepted"])
        return Desk(forge, self._names, start["id"], accepted=accepted, redaction=self._redaction)

    async def _outcome(self, value: Mapping[str, Any]) -> Outcome:
        return outcome_of(await self.luggage.load(value["start"]["id"], value["public"]["head"]))

    def _forge(self, start: JsonObject) -> Forge | None:
        place: Mapping[str, Any] = start["forge"]
        if place["kind"] == "none":
            return None
        key = "\0".join(_words(place))
        if key not in self._forges:
            self._forges[key] = self._open_forge(place)
        return self._forges[key]


def _said(answer: str, reason: str, by: str = "", budget: Mapping[str, float] | None = None) -> JsonObject:
    more = dict(budget) if budget else None
    return {"answer": answer, "reason": reason, "by": by, "via": "comment", "budget": more}


def _was_locked_out(published: Mapping[str, Any]) -> bool:
    error: Mapping[str, Any] | None = published.get("error")
    return error is not None and error.get("code") == "forge_unauthorized"


def _number(public: Mapping[str, Any]) -> int | None:
    request = public.get("request")
    return request["number"] if request else None


def _words(place: Mapping[str, Any]) -> Sequence[str]:
    return [str(place.get(name, "")) for name in ("kind", "path", "url")]

"""A participant behind a runner: a CLI on the host, asked over HTTP by a server in a container.

The runner's form: ``POST`` with ``{"prompt": …, "history": [], "seconds": …}`` is answered by ``output``,
what the CLI said, and ``reply``, all that is known of it (``reply_as_json``); a failure by 500 or 504 with
``error``, and ``reply`` as well. A runner without ``reply`` will do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, cast

from kakite.debate.answers import Answer, Failure, FailureCode, Reply, read_block
from kakite.debate.participants import TIME, OnProgress, Seen
from kakite.debate.readers import failure
from kakite.debate.record import Side
from kakite.visible import whole_values

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

_MARGIN = 15.0
"""Seconds that a runner gets beyond the participant's, to end it and to tell."""
_LOOK = 15.0
"""Seconds for a runner to look at its program."""
_TOLD = 200
_CODES: Mapping[int, FailureCode] = {
    404: "unreachable",
    421: "unreachable",
    503: "http_error",  # it may have a place for us in the next round
    504: "timed_out",
}


def reply_as_json(reply: Reply) -> dict[str, object]:
    """Return a reply as the runner sends it."""
    return cast("dict[str, object]", whole_values(json.loads(json.dumps(asdict(reply)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRunner:
    """Asks a runner."""

    side: Side
    url: str
    """The address of the participant there, such as ``http://host.docker.internal:9001/codex``."""
    token: str = field(repr=False)
    time: float = TIME
    """Seconds in all; the runner has its own limit as well."""

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,  # noqa: ARG002 - a runner tells none
    ) -> Reply:
        """Ask it once; the connection ends with us, which ends the program there."""
        import httpx2

        time = self.time if seconds is None else min(self.time, seconds)
        if time <= 0:
            return failure("timed_out", "the budget's time is used up")
        try:
            async with self._client(time + _MARGIN) as client:
                body: dict[str, object] = {"prompt": prompt, "history": [], "seconds": time}
                response = await client.post(self.url, json=body)
        except httpx2.TimeoutException:
            return failure("timed_out", f"after {time:.0f} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return failure("unreachable", f"{self.url}: {error}")
        return _read(response.status_code, response.content)

    async def seen(self) -> Seen:
        """Look whether somebody answers at the address, and what a runner of ours says of the participant."""
        import httpx2

        try:
            async with self._client(_LOOK) as client:
                response = await client.get(self.url)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            remedy = "start `kakite debate runner` on the host"
            return Seen(state="missing", told=f"{self.url}: {error}", remedy=remedy)
        if response.status_code in {401, 403}:
            told = f"{self.url}: the runner refuses the token"
            return Seen(state="logged_out", told=told, remedy="set KAKITE_DEBATE_TOKEN to that of the runner")
        return _seen(response.content, self.url)

    def _client(self, seconds: float) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            timeout=seconds,
            trust_env=False,  # it is on this machine: a proxy of the network has no part in it
            headers={"Authorization": f"Bearer {self.token}"},
        )


def _read(status: int, content: bytes) -> Reply:
    try:
        body: object = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, Mapping):
        return failure("unreachable", f"no runner answers there (HTTP {status})")
    told = cast("Mapping[str, object]", body)
    if reply := _reply(told.get("reply")):
        return reply
    if status in {401, 403}:
        return failure("unreachable", "the runner refuses the token")
    if status != 200:
        return failure(_CODES.get(status, "exited"), str(told.get("error", "")))
    output = told.get("output")
    return read_block(output) if isinstance(output, str) and output.strip() else failure("empty_answer")


def _seen(content: bytes, url: str) -> Seen:
    try:
        seen = _sights().validate_json(content)
    except (ValueError, RecursionError):
        return Seen(state="unknown", told=url)
    return replace(seen, told=f"{seen.told[:_TOLD]} ({url})", remedy=seen.remedy[:_TOLD])


def _reply(value: object) -> Reply | None:
    if not isinstance(value, Mapping):
        return None
    try:
        return _replies().validate_python(whole_values(cast("object", value)))
    except ValueError:
        return None


@cache
def _replies() -> TypeAdapter[Answer | Failure]:
    from pydantic import TypeAdapter

    return TypeAdapter(Answer | Failure)


@cache
def _sights() -> TypeAdapter[Seen]:
    from pydantic import TypeAdapter

    return TypeAdapter(Seen)

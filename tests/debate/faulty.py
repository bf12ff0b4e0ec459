"""A provider on the loopback that fails in one way, for real CLIs."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager

from tests.clients.model import Json, Said, answering, as_events
from tests.debate.loopback import Debater


@contextmanager
def failing(fault: str) -> Generator[str]:
    """Serve a provider that answers each question so, and return its address.

    ``cut``: in the middle of an answer. ``silent_end``: it begins no answer. ``no_text``: an empty one.
    """

    def answer(path: str, request: Json) -> Said:
        if fault.isdecimal():
            return int(fault), "application/json", _refusal(int(fault))
        if fault == "garbage":
            return 200, "text/html", b"<html>Log in to the hotel's network</html>"
        model = Debater()
        events = list((model.messages if path == "/v1/messages" else model.responses)(request))
        if fault == "cut":
            events = events[:-1] if path == "/v1/responses" else events[:3]
        elif fault == "silent_end":
            events = []
        else:
            events = [each for each in events if "content_block" not in str(each["type"])]
            events = [each for each in events if each["type"] != "response.output_item.done"]
        return as_events(events)

    with answering(answer) as address:
        yield address


_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def _refusal(status: int) -> bytes:
    error = {"type": _TYPES[status], "message": "it is refused here", "code": None}
    return json.dumps({"type": "error", "error": error}).encode()

"""A provider on the loopback that fails in one way, for real CLIs."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.debate.loopback import Debater


@contextmanager
def failing(fault: str) -> Generator[str]:
    """Serve a provider that answers each question so, and return its address.

    ``cut``: in the middle of an answer. ``silent_end``: it begins no answer. ``no_text``: an empty one.
    """

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if fault.isdecimal():
                self._say(int(fault), "application/json", _refusal(int(fault)))
                return
            if fault == "garbage":
                self._say(200, "text/html", b"<html>Log in to the hotel's network</html>")
                return
            model = Debater()
            at = self.path.partition("?")[0]
            events = list((model.messages if at == "/v1/messages" else model.responses)(request))
            if fault == "cut":
                events = events[:-1] if at == "/v1/responses" else events[:3]
            elif fault == "silent_end":
                events = []
            else:
                events = [each for each in events if "content_block" not in str(each["type"])]
                events = [each for each in events if each["type"] != "response.output_item.done"]
            body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
            self._say(200, "text/event-stream", body.encode())

        def do_HEAD(self) -> None:
            self._say(200, "text/plain", b"")

        def do_GET(self) -> None:
            self._say(404, "text/plain", b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            pass

        def _say(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


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

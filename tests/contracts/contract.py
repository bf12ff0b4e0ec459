"""A forge's OpenAPI document, asked about one request or answer at a time."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from kakite.testing.forges import Asked, Reply

HERE = Path(__file__).parent


_VARIES = frozenset({"authorization", "private-token", "if-none-match", "host"})


class _Request:
    """A request, as openapi-core asks for it."""

    def __init__(self, asked: Asked) -> None:
        self.host_url = "http://127.0.0.1"
        self.path = asked.path
        self.method = asked.method.lower()
        self.body = asked.body or None
        # GitHub's document knows requests as plain JSON alone.
        self.content_type = asked.headers.get("content-type", "application/json").lower()
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(list(asked.query)), header=Headers(list(asked.headers.items()))
        )


class _Response:
    def __init__(self, reply: Reply) -> None:
        self.status_code = reply.status
        self.content_type = "application/json"
        self.headers = Headers(list(reply.headers.items()))
        self.data = b"" if reply.body is None else json.dumps(reply.body).encode()


class OpenApiContract:
    """Holds requests and answers to a document. What lies beside the API it knows nothing of."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._openapi = OpenAPI.from_dict(document)
        self._prefix = document["servers"][0]["url"] + "/"
        self._told: dict[object, str | None] = {}
        """What was said of a request or answer: the same ones come again and again, and a look takes ms."""

    def question(self, asked: Asked) -> str | None:
        """Return what is wrong with a request."""
        if not asked.path.startswith(self._prefix):
            return None
        headers = tuple(sorted(each for each in asked.headers.items() if each[0] not in _VARIES))
        key = (asked.method, asked.path, tuple(asked.query), headers, asked.body)
        return self._once(key, lambda: self._openapi.validate_request(_Request(asked)))

    def answer(self, asked: Asked, reply: Reply) -> str | None:
        """Return what is wrong with an answer."""
        if not asked.path.startswith(self._prefix) or reply.status >= 300:
            return None
        key = (asked.method, asked.path, reply.status, json.dumps(reply.body))
        return self._once(key, lambda: self._openapi.validate_response(_Request(asked), _Response(reply)))

    def _once(self, key: object, validate: Any) -> str | None:
        if key not in self._told:
            self._told[key] = _told(validate)
        return self._told[key]


def _told(validate: Any) -> str | None:
    try:
        validate()
    except OpenAPIError as error:
        causes = getattr(error.__cause__, "schema_errors", None) or [error.__cause__ or ""]
        return f"{error}: {'; '.join(str(getattr(each, 'message', each)) for each in causes)}"
    return None


@cache
def github_contract() -> OpenApiContract:
    """Return GitHub's contract."""
    return OpenApiContract(json.loads((HERE / "github.json").read_text(encoding="utf-8")))


@cache
def gitlab_contract() -> OpenApiContract:
    """Return GitLab's contract, as far as we know it."""
    return OpenApiContract(yaml.safe_load((HERE / "gitlab.yaml").read_text(encoding="utf-8")))

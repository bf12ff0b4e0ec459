"""A forge's OpenAPI document or GraphQL schema, asked about one request or answer at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    build_schema,
    execute_sync,  # pyright: ignore[reportUnknownVariableType]
    parse,
    validate,
)
from graphql.execution import get_variable_values
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from kakite_testing.forges import ForgeRequest, ForgeResponse

HERE = Path(__file__).parent


_VARIES = frozenset({"authorization", "private-token", "if-none-match", "host"})


class _Request:
    """A request, as openapi-core asks for it."""

    def __init__(self, asked: ForgeRequest) -> None:
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
    def __init__(self, reply: ForgeResponse) -> None:
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

    def check_request(self, asked: ForgeRequest) -> str | None:
        """Return what is wrong with a request."""
        if not asked.path.startswith(self._prefix):
            return None
        headers = tuple(sorted(each for each in asked.headers.items() if each[0] not in _VARIES))
        key = (asked.method, asked.path, tuple(asked.query), headers, asked.body)
        return self._once(key, lambda: self._openapi.validate_request(_Request(asked)))

    def check_response(self, asked: ForgeRequest, reply: ForgeResponse) -> str | None:
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


class GraphQLContract:
    """Holds queries and answers to a schema. What lies beside its one address it knows nothing of."""

    def __init__(self, schema: str, path: str) -> None:
        self._schema = build_schema(schema)
        self._path = path

    def check_request(self, asked: ForgeRequest) -> str | None:
        """Return what is wrong with a query or its values."""
        if asked.path != self._path:
            return None
        try:
            query = parse(asked.json["query"])
        except (KeyError, GraphQLSyntaxError) as error:
            return f"no query: {error}"
        return _wrong(validate(self._schema, query)) or self._values(query, asked.json.get("variables") or {})

    def _values(self, query: DocumentNode, values: dict[str, Any]) -> str | None:
        told: list[GraphQLError] = []
        for each in query.definitions:
            assert isinstance(each, OperationDefinitionNode)
            read = get_variable_values(self._schema, each.variable_definitions or (), values)
            told += read if isinstance(read, list) else []
        return _wrong(told)

    def check_response(self, asked: ForgeRequest, reply: ForgeResponse) -> str | None:
        """Return what is wrong with an answer that gives data: it must be what the query asks for."""
        if asked.path != self._path or reply.status >= 300 or "errors" in reply.body:
            return None
        data = reply.body["data"]
        shaped = execute_sync(
            self._schema,
            parse(asked.json["query"]),
            data,
            variable_values=asked.json.get("variables"),
            type_resolver=_actor,
        )
        if shaped.errors or shaped.data != data:
            return _wrong(shaped.errors) or f"the query asks for {shaped.data}, the answer has {data}"
        return None


def _actor(*_: object) -> str:
    return "User"


def _wrong(errors: Sequence[GraphQLError] | None) -> str | None:
    return "; ".join(each.message for each in errors or ()) or None


class Contracts:
    """Several contracts, each of which knows a part of the addresses."""

    def __init__(self, *contracts: OpenApiContract | GraphQLContract) -> None:
        self._contracts = contracts

    def check_request(self, asked: ForgeRequest) -> str | None:
        """Return what is wrong with a request."""
        return next(filter(None, (each.check_request(asked) for each in self._contracts)), None)

    def check_response(self, asked: ForgeRequest, reply: ForgeResponse) -> str | None:
        """Return what is wrong with an answer."""
        return next(filter(None, (each.check_response(asked, reply) for each in self._contracts)), None)


@cache
def github_contract() -> Contracts:
    """Return GitHub's contracts."""
    return Contracts(
        OpenApiContract(json.loads((HERE / "github.json").read_text(encoding="utf-8"))),
        GraphQLContract((HERE / "github.graphql").read_text(encoding="utf-8"), "/api/graphql"),
    )


@cache
def gitlab_contract() -> OpenApiContract:
    """Return GitLab's contract, as far as we know it."""
    return OpenApiContract(yaml.safe_load((HERE / "gitlab.yaml").read_text(encoding="utf-8")))

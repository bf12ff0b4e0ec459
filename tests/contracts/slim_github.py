"""Make ``github.json`` anew from GitHub's own OpenAPI document, with the operations that Kakite asks for.

    npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz
    python tests/contracts/slim_github.py package/generated/api.github.com.json

What a request must look like stays whole. Of answers only fields and types stay, not which of them are there:
a fake may say less than GitHub, never something else. The source is under the MIT licence; its notice is in
``LICENSE-github``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VERSION = "23.0.2"
OPERATIONS = """
get /user
get /app
get /rate_limit
post /app/installations/{installation_id}/access_tokens
get /repos/{owner}/{repo}
get /repos/{owner}/{repo}/installation
get /repos/{owner}/{repo}/collaborators/{username}/permission
get /repos/{owner}/{repo}/labels
post /repos/{owner}/{repo}/labels
get /repos/{owner}/{repo}/issues
get /repos/{owner}/{repo}/issues/comments
patch /repos/{owner}/{repo}/issues/comments/{comment_id}
get /repos/{owner}/{repo}/issues/{issue_number}
patch /repos/{owner}/{repo}/issues/{issue_number}
get /repos/{owner}/{repo}/issues/{issue_number}/comments
post /repos/{owner}/{repo}/issues/{issue_number}/comments
get /repos/{owner}/{repo}/issues/{issue_number}/events
get /repos/{owner}/{repo}/issues/{issue_number}/timeline
post /repos/{owner}/{repo}/issues/{issue_number}/labels
put /repos/{owner}/{repo}/issues/{issue_number}/labels
delete /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}
post /repos/{owner}/{repo}/issues/{issue_number}/assignees
delete /repos/{owner}/{repo}/issues/{issue_number}/assignees
get /repos/{owner}/{repo}/pulls
post /repos/{owner}/{repo}/pulls
get /repos/{owner}/{repo}/pulls/comments
get /repos/{owner}/{repo}/pulls/{pull_number}
patch /repos/{owner}/{repo}/pulls/{pull_number}
get /repos/{owner}/{repo}/pulls/{pull_number}/comments
get /repos/{owner}/{repo}/pulls/{pull_number}/reviews
post /repos/{owner}/{repo}/pulls/{pull_number}/reviews
"""
_WORDS = frozenset(
    {
        *("description", "summary", "title", "example", "examples"),
        *("externalDocs", "deprecated", "discriminator"),
    }
)
_JSON = "application/json"


def slim(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the document with our operations alone, and all that they refer to."""
    paths: dict[str, dict[str, Any]] = {}
    for line in OPERATIONS.split("\n"):
        method, _, path = line.partition(" ")
        if path:
            paths.setdefault(path, {})[method] = _operation(whole["paths"][path][method], whole)
    document: dict[str, Any] = {
        "openapi": whole["openapi"],
        "info": {
            "title": "GitHub, as far as Kakite asks it",
            "version": VERSION,
            "license": {"name": "MIT"},
        },
        "servers": [{"url": "/api/v3"}],
        "paths": paths,
        "components": {},
    }
    _complete(document, whole)
    return document


def _operation(operation: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: _terse(operation[name])
        for name in ("operationId", "parameters", "requestBody")
        if name in operation
    }
    # In place: looking parameters up takes most of the time that checking a request does.
    kept["parameters"] = [_found(each, whole) for each in kept.get("parameters", [])]
    kept["responses"] = {
        code: _answer(answer) for code, answer in operation["responses"].items() if code in {"200", "201"}
    } or {"default": {"description": ""}}
    return kept


def _answer(answer: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"description": ""}
    if schema := answer.get("content", {}).get(_JSON, {}).get("schema"):
        kept["content"] = {_JSON: {"schema": _lenient(_terse(schema))}}
    return kept


def _terse(value: Any, *, names: bool = False) -> Any:
    """Return it without words for readers. ``names``: the keys are names of properties, not of the format."""
    if isinstance(value, list):
        return [_terse(item) for item in _list(value)]
    if not isinstance(value, dict):
        return value
    return {
        key: _terse(item, names=key == "properties" and not names)
        for key, item in _dict(value).items()
        if names or (key not in _WORDS and not key.startswith("x-"))
    }


def _lenient(value: Any, *, names: bool = False) -> Any:
    """Return it without ``required``, and with references to schemas that are lenient as well."""
    if isinstance(value, list):
        return [_lenient(item) for item in _list(value)]
    if not isinstance(value, dict):
        return value
    kept = {
        # With fewer fields asked for, more than one of several forms may fit.
        "anyOf" if key == "oneOf" and not names else key: _lenient(
            item, names=key == "properties" and not names
        )
        for key, item in _dict(value).items()
        if names or key != "required"
    }
    reference = kept.get("$ref")
    if isinstance(reference, str) and not names:
        kept["$ref"] = reference.replace("/schemas/", "/schemas/answer.")
    return kept


def _complete(document: dict[str, Any], whole: dict[str, Any]) -> None:
    while missing := _references(document) - _defined(document):
        for reference in missing:
            kind, name = reference.removeprefix("#/components/").split("/", 1)
            document["components"].setdefault(kind, {})[name] = _component(whole, kind, name)


def _found(value: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    kind, name = value["$ref"].removeprefix("#/components/").split("/", 1)
    return _component(whole, kind, name)


def _component(whole: dict[str, Any], kind: str, name: str) -> Any:
    if kind == "schemas" and name.startswith("answer."):
        return _lenient(_terse(whole["components"][kind][name.removeprefix("answer.")]))
    return _terse(whole["components"][kind][name])


def _defined(document: dict[str, Any]) -> set[str]:
    return {f"#/components/{kind}/{name}" for kind, all_ in document["components"].items() for name in all_}


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {found for item in _list(value) for found in _references(item)}
    if not isinstance(value, dict):
        return set()
    own = {each for key, each in _dict(value).items() if key == "$ref" and isinstance(each, str)}
    return own | {found for item in _dict(value).values() for found in _references(item)}


def _list(value: Any) -> list[Any]:
    return value


def _dict(value: Any) -> dict[str, Any]:
    return value


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    target = Path(__file__).with_name("github.json")
    target.write_text(json.dumps(slim(source), indent=1, sort_keys=True) + "\n", encoding="utf-8")

"""Make ``github.graphql`` anew from GitHub's own GraphQL schema, with the fields that Kakite asks for.

    npm pack @octokit/graphql-schema@15.26.1 && tar xzf octokit-graphql-schema-15.26.1.tgz
    python tests/contracts/slim_github_graphql.py package/schema.graphql

The fields that stay keep their arguments and their types to the letter. The source is under the MIT licence;
its notice is in ``LICENSE-github``.
"""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from graphql import parse, print_ast
from graphql.language import ast

VERSION = "15.26.1"
FIELDS = {
    "Query": {"repository", "viewer"},
    "Repository": {"issue"},
    "Issue": {"userContentEdits"},
    "UserContentEditConnection": {"nodes", "pageInfo"},
    "UserContentEdit": {"editedAt", "editor"},
    "PageInfo": {"hasNextPage", "endCursor"},
    "Actor": {"login"},
    "Mutation": {"markPullRequestReadyForReview", "convertPullRequestToDraft"},
    "MarkPullRequestReadyForReviewPayload": {"pullRequest"},
    "ConvertPullRequestToDraftPayload": {"pullRequest"},
    "PullRequest": {"isDraft"},
    "User": {"login"},
}
WHOLE = {"MarkPullRequestReadyForReviewInput", "ConvertPullRequestToDraftInput", "DateTime"}


def slim(text: str) -> str:
    """Return the schema with our fields alone."""
    kept = [_slimmed(each) for each in parse(text, no_location=True).definitions]
    head = f"# GitHub's GraphQL schema {VERSION}, as far as Kakite asks it. MIT licence.\n\n"
    return head + "\n\n".join(print_ast(_bare(each)) for each in kept if each)


def _slimmed(definition: ast.DefinitionNode) -> ast.DefinitionNode | None:
    name = definition.name.value if isinstance(definition, ast.TypeDefinitionNode) else ""
    if not isinstance(definition, ast.ObjectTypeDefinitionNode | ast.InterfaceTypeDefinitionNode):
        return definition if name in WHOLE else None
    if name not in FIELDS:
        return None
    fields = tuple(_bare(each) for each in definition.fields or () if each.name.value in FIELDS[name])
    interfaces = tuple(each for each in definition.interfaces or () if each.name.value in FIELDS)
    return replace(definition, fields=fields, interfaces=interfaces)


def _bare(node: Any) -> Any:
    """Return it, and the arguments and input fields in it, without descriptions and directives."""
    changed: dict[str, Any] = {}
    for each in fields(node):
        if each.name in ("description", "directives"):
            changed[each.name] = None if each.name == "description" else ()
        elif each.name in ("arguments", "fields") and (within := getattr(node, each.name)):
            changed[each.name] = tuple(_bare(part) for part in within)
    return replace(node, **changed)


if __name__ == "__main__":
    whole = Path(sys.argv[1]).read_text(encoding="utf-8")
    Path(__file__).with_name("github.graphql").write_text(slim(whole) + "\n", encoding="utf-8")

"""Which servers are taken for a forge's: whatever they are called, by what they offer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.toolsets.external import FORGE_NAMES, detect_forge_entry, detect_forge_tool
from kakite.host.config.model import HttpServer, ServerEntry, SourceLocation, StdioServer
from kakite.tools import Tool

HERE = SourceLocation(file="mcp.json", line=1, scope="user")
WORDS = st.text(alphabet="abcdxyz-_./", max_size=12)
SPELT = st.sampled_from(FORGE_NAMES).flatmap(lambda word: st.sampled_from([word, word.upper(), word.title()]))
NAMING = st.tuples(WORDS, SPELT, WORDS).map("".join)


def program(*words: str, name: str = "s", **env: str) -> ServerEntry:
    return ServerEntry(name=name, reached=StdioServer(command=words[0], args=words[1:], env=env), origin=HERE)


def tool(name: str, *arguments: str, title: str = "") -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": {each: {} for each in arguments}}
    return Tool(name=name, description="", parameters=schema, title=title)


@given(
    word=NAMING,
    before=st.lists(WORDS),
    after=st.lists(WORDS),
    place=st.sampled_from(["name", "args", "env", "url"]),
)
def test_an_entry_that_names_a_forge_anywhere_is_a_forges(
    word: str, before: list[str], after: list[str], place: str
) -> None:
    entry = {
        "name": program("run", *before, name=word),
        "args": program("run", *before, word, *after),
        "env": program("run", *before, **{word: ""}),
        "url": ServerEntry(name="s", reached=HttpServer(url=f"https://x.example/{word}"), origin=HERE),
    }[place]
    assert detect_forge_entry(entry) in FORGE_NAMES


FORGE_TOOLS = [
    tool("create_pull_request"),
    tool("createMergeRequest"),
    tool("push_files"),
    tool("create_or_update_file", "path", "content"),
    tool("fork_repository"),
    tool("gh-create-pr"),
    tool("read", "owner", "repo", "path"),
    tool("read", "project_id", "file_path", "ref"),
    tool("note", "projectId", "mergeRequestIid"),
    tool("look", title="Look at GitLab"),
    tool("github_search"),
]
OTHERS = st.builds(
    tool, st.sampled_from(["read_file", "write_file", "fetch", "query", "think", "git_log", "search"])
)
PREFIX = st.sampled_from(["", "x_", "code.", "mcp-"])


@given(found=st.sampled_from(FORGE_TOOLS), before=st.lists(OTHERS), after=st.lists(OTHERS), prefix=PREFIX)
def test_a_server_with_one_tool_of_a_forge_is_a_forges_whatever_it_is_called(
    found: Tool, before: list[Tool], after: list[Tool], prefix: str
) -> None:
    renamed = Tool(name=prefix + found.name, description="", parameters=found.parameters, title=found.title)
    assert detect_forge_tool([*before, renamed, *after]) == renamed.name


@given(tools=st.lists(OTHERS))
def test_tools_that_are_no_forges_are_not_taken_for_one(tools: list[Tool]) -> None:
    assert detect_forge_tool(tools) == ""


@pytest.mark.parametrize(
    "entry",
    [
        program("npx", "-y", "@modelcontextprotocol/server-filesystem", "."),
        program("uvx", "--from", "git+https://github.com/someone/notes-mcp", "notes-mcp"),
        program("npx", "-y", "github:someone/notes-mcp"),
        program("python", "-m", "mcp_server_git", "--repository", "."),
        ServerEntry(name="docs", reached=HttpServer(url="https://mcp.docs.example/mcp"), origin=HERE),
    ],
)
def test_where_a_package_is_fetched_from_makes_no_server_a_forges(entry: ServerEntry) -> None:
    assert detect_forge_entry(entry) == ""


@pytest.mark.parametrize(
    "entry",
    [
        program("npx", "-y", "github:github/github-mcp-server"),
        program("uvx", "--from", "git+https://gitlab.com/x/gitlab-mcp", "mcp"),
        program("docker", "run", "-i", "ghcr.io/github/github-mcp-server"),
        program("server", GITHUB_PERSONAL_ACCESS_TOKEN="${T}"),
        program("server", TOKEN="${GITLAB_TOKEN}"),
        ServerEntry(name="code", reached=HttpServer(url="https://api.githubcopilot.com/mcp/"), origin=HERE),
    ],
)
def test_servers_of_forges_are_known_by_what_starts_them(entry: ServerEntry) -> None:
    assert detect_forge_entry(entry)

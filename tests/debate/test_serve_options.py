"""``kakite debate serve``: over HTTP, its options, and what it prints for clients."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.bounds import WITHIN
from tests.cli.program import kakite
from tests.debate.serving import ERAS, call, finished, listening, participants

SIDES = {"KAKITE_DEBATE_PARTICIPANTS": participants(codex="agrees", claude="objects")}
LOCAL = "127.0.0.1:0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_several_clients_over_http_share_the_debates(era: str, home: Path) -> None:
    with listening(home, "serve", "--http", LOCAL, "--rounds", "1", env=SIDES) as served:
        with anyio.fail_after(WITHIN):
            async with Client(served.url, mode=era) as one, Client(served.url, mode=era) as other:
                await call(one, "start_debate", initial_prompt="One?")
                refused = await call(other, "start_debate", initial_prompt="Two?")
                assert refused["code"] == "already_active"
                await call(other, "start_debate", initial_prompt="Two?", session="two")
                assert (await finished(other))["turn"]["user_instruction"] == "One?"
                assert (await finished(one, session="two"))["turn"]["user_instruction"] == "Two?"


@pytest.mark.slow
@pytest.mark.anyio
async def test_with_a_token_only_who_brings_it_comes_in(home: Path) -> None:
    with listening(home, "serve", "--http", LOCAL, env={**SIDES, "KAKITE_TOKEN": "t0ken"}) as served:
        with anyio.fail_after(WITHIN):
            async with httpx2.AsyncClient() as stranger:
                assert (await stranger.post(served.url, json={})).status_code == 401
                host = {"Host": "evil.example", "Authorization": "Bearer t0ken"}
                assert (await stranger.post(served.url, json={}, headers=host)).status_code == 421
                page = {"Origin": "http://evil.example", "Authorization": "Bearer t0ken"}
                assert (await stranger.post(served.url, json={}, headers=page)).status_code == 403
            async with (
                httpx2.AsyncClient(headers={"Authorization": "Bearer t0ken"}) as known,
                Client(streamable_http_client(served.url, http_client=known)) as client,
            ):
                assert (await call(client, "status"))["sessions"] == []


@pytest.mark.slow
def test_on_the_network_a_token_is_made_and_told(home: Path) -> None:
    with listening(home, "serve", "--http", "0.0.0.0:0", env=SIDES) as served:
        assert "Authorization: Bearer " in served.stderr.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "most"),
    [([], 4), (["--cap", "1"], 1), (["--rounds", "6"], 6), (["--rounds", "1", "--cap", "3"], 3)],
)
def test_no_debate_has_more_rounds_than_its_cap(flags: list[str], most: int, home: Path) -> None:
    tools = {
        tool["name"]: tool
        for tool in json.loads(printed(home, *flags, "--print-config", "mcp.json"))["tools"]
    }
    assert tools["start_debate"]["input_schema"]["properties"]["rounds"]["maximum"] == most


def test_more_rounds_than_the_cap_are_refused(home: Path) -> None:
    refused = kakite("debate", "serve", "--rounds", "3", "--cap", "2", home=home, env=SIDES)
    assert (refused.code, "error (bad_terms)" in refused.stderr) == (2, True)


def printed(home: Path, *arguments: str, **env: str) -> str:
    done = kakite("debate", "serve", *arguments, home=home, env={**SIDES, **env})
    assert done.code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("client", "key"),
    [
        ("claude-code", "mcpServers"),
        ("claude-desktop", "mcpServers"),
        ("cursor", "mcpServers"),
        ("pi", "mcpServers"),
        ("vscode", "servers"),
    ],
)
def test_a_client_is_told_how_to_start_it_with_these_options(client: str, key: str, home: Path) -> None:
    text = printed(home, "--rounds", "3", "--transcript", "out", "--print-config", client)
    entry = json.loads(text)[key]["debate"]
    out = str(home / "out")
    assert entry["args"][-6:] == ["debate", "serve", "--rounds", "3", "--transcript", out]
    assert Path(entry["command"]).is_absolute()


def test_codex_is_told_in_its_own_form(home: Path) -> None:
    entry = tomllib.loads(printed(home, "--print-config=codex", "--keep"))["mcp_servers"]["debate"]
    assert entry["args"][-3:] == ["debate", "serve", "--keep"]
    entry = tomllib.loads(printed(home, "--http", "--print-config", "codex", KAKITE_TOKEN="t0ken"))
    assert entry["mcp_servers"]["debate"] == {
        "url": "http://127.0.0.1:8080/mcp",
        "bearer_token_env_var": "KAKITE_TOKEN",
    }


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (
            "cursor",
            {"url": "http://127.0.0.1:8080/mcp", "headers": {"Authorization": "Bearer ${env:KAKITE_TOKEN}"}},
        ),
        (
            "claude-code",
            {
                "type": "http",
                "url": "http://127.0.0.1:8080/mcp",
                "headers": {"Authorization": "Bearer ${KAKITE_TOKEN}"},
            },
        ),
    ],
)
def test_the_address_of_one_that_listens_is_told_without_the_token(
    client: str, expected: dict[str, Any], home: Path
) -> None:
    text = printed(home, "--http", "--print-config", client, KAKITE_TOKEN="t0ken")
    assert json.loads(text)["mcpServers"]["debate"] == expected
    assert "t0ken" not in text


def test_the_seeds_description_names_the_tools(home: Path) -> None:
    told = json.loads(printed(home, "--print-config", "mcp.json"))
    assert told["name"] == "ai_debate_bridge"
    assert [tool["name"] for tool in told["tools"]][:2] == ["start_debate", "step"]
    assert "initial_prompt" in told["tools"][0]["input_schema"]["properties"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--print-config", "emacs"], "known clients: "),
        (["--http", "--print-config", "claude-desktop"], "known clients: claude-code, codex, cursor, vscode"),
        (["--http", "--print-config", "pi"], "no client `pi`"),
        (["127.0.0.1:9000"], "--http 127.0.0.1:9000"),
        (["--http", "9000"], "HOST:PORT"),
        (["--mode", "fight"], "ensemble"),
        (["--order", "random"], "staged"),
        (["--rounds", "11"], "--rounds"),
        (["--budget-asks", "2", "-p", "codex", "-p", "claude", "-p", "third"], "third"),
        (["--participant", "codex"], "2 to 8 sides"),
        (["-p", "codex", "-p", "nobody"], "nobody"),
        (["--transcript", "/proc/nowhere"], "cannot write to"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_it_serves(
    arguments: list[str], told: str, home: Path
) -> None:
    done = kakite("debate", "serve", *arguments, home=home, env=SIDES)
    assert done.code == 2, done.stderr
    assert told in done.stderr


@pytest.mark.slow
def test_a_kakite_yaml_of_a_repository_names_no_program(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    trap = project / "codex"
    trap.write_text(f"#!/bin/sh\necho caught > {tmp_path}/caught\n", encoding="utf-8")
    trap.chmod(0o755)
    setting = f"debate_participants: {json.dumps({'codex': {'command': [str(trap)]}})}\n"
    (project / "kakite.yaml").write_text(setting, encoding="utf-8")
    assert "is ignored" in kakite("doctor", home=home, cwd=project).stderr
    assert not (tmp_path / "caught").exists()
    kakite("doctor", home=home, cwd=project, env={"KAKITE_CONFIG": "kakite.yaml"})
    assert (tmp_path / "caught").exists(), "the trap works, if the person takes it"

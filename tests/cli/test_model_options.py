"""A temperature, headers and fields of one's own, from flags and settings to what the provider gets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kakite.cli.debate.runner import load_participants
from kakite.cli.settings import ConfigError, Settings, build_model_options, check_flags, load_settings
from kakite.models.options import choose_options
from kakite_testing.fake_providers import run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import kakite
from tests.cli.test_agent_run import done, edit, plan, run_arguments, script
from tests.models import wire
from tests.models.wire import serving
from tests.repositories import make_remote

SECRET = "0f-the-gateway-only"


@pytest.mark.slow
def test_every_request_has_them_and_the_secret_is_stored_nowhere(tmp_path: Path) -> None:
    home = tmp_path / "person"
    home.mkdir()
    remote = make_remote(tmp_path, {"greet.py": "def greet():\n    return 'hello'\n"})
    env = {"GATEWAY": SECRET}
    given = ("--temperature", "0.5", "--header", "X-Gateway: Bearer ${GATEWAY}", "--header", "X-Team: blue")
    with run_scenario_server(script(plan(), edit(), done())) as server:
        more = (*given, "--body", '{"seed": 7}', "--approve", "all", "--json")
        first = kakite(*run_arguments(remote, server, *more), home=home, env=env)
        asked = list(server.requests)
    assert first.code == 0, first.stderr
    again = edit("'hello, world'", "'hello, moon'")
    with run_scenario_server(script(plan(), again, done(), done())) as server:
        more = ("--base-url", server.openai_url, "--temperature", "0", "--json")
        second = kakite("agent", "continue", first.json["id"], "more", *more, home=home, env=env)
        asked_again = list(server.requests)
    assert second.code == 0, second.stderr
    assert {(each.json["temperature"], each.json["seed"]) for each in asked} == {(0.5, 7)}
    assert {(each.json["temperature"], each.json["seed"]) for each in asked_again} == {(0, 7)}
    for each in (*asked, *asked_again):
        assert (each.headers["x-gateway"], each.headers["x-team"]) == (f"Bearer {SECRET}", "blue")
    shown = kakite("agent", "show", first.json["id"], "--json", home=home, env=env)
    told = "".join(each.stdout + each.stderr for each in (first, second, shown))
    assert SECRET not in told
    kept = [file for file in home.rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if SECRET.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        (("--header", "Authorization: Bearer abc-def"), "abc-def"),
        (("--header", "no colon"), ""),
        (("--header", "Host: elsewhere"), ""),
        (("--body", "["), ""),
        (("--body", '{"messages": []}'), ""),
        (("--temperature", "3"), ""),
    ],
)
def test_what_makes_no_sense_is_refused(given: tuple[str, ...], hidden: str, tmp_path: Path) -> None:
    remote = str(make_remote(tmp_path, {"a.py": "1\n"}))
    outcome = kakite("agent", "run", "t", "--repo", remote, "--model", "openai:m", *given, home=tmp_path)
    assert outcome.code == 2
    assert "Traceback" not in outcome.stderr
    assert f"`{given[0]}`" in outcome.stderr
    assert not hidden or hidden not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("said", ["{X-A: '1', x-a: '2'}", ["X-A: 1", "x-a: 2"], ["X-A: 1", "X-A: 1"]])
def test_a_header_is_said_once(said: str | list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="X-A"):
        check_flags({"extra_headers": said})
    if isinstance(said, str):
        with pytest.raises(ConfigError, match="X-A"):
            load(tmp_path, KAKITE_EXTRA_HEADERS=said)


@pytest.mark.parametrize("name", ["EXTRA_HEADERS", "EXTRA_BODY", "MODEL_OPTIONS", "HOOKS", "TEXT_EDITOR_MCP"])
@pytest.mark.parametrize(
    "broken",
    [
        "{'Authorization': 'Bearer ?'",
        "{a: '?', b: [}",
        "{a: *?}",
        "{a: !? 1}",
        "{a: !x!? 1}",
        '{a: "?\\q"}',
        "a: ?: ?",
    ],
)
def test_what_is_no_yaml_is_told_without_what_stands_in_it(name: str, broken: str, tmp_path: Path) -> None:
    text = broken.replace("?", SECRET)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **{f"KAKITE_{name}": text})
    told = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.code == "bad_setting"
    assert f"KAKITE_{name}" in told
    assert SECRET not in told
    with pytest.raises(ConfigError) as caught:
        check_flags({name.lower(): text})
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "said", ["{Authorization:Bearer ?}", "{'X-Key:?': 1}", "{'X-Key:?': a}", "{'X-Key?\\n': a}"]
)
def test_a_header_without_its_colon_is_told_without_what_stands_in_it(said: str, tmp_path: Path) -> None:
    text = said.replace("?", SECRET)
    patterns = f"{{'*': {{extra_headers: {text}}}}}"
    for variable, value in (("KAKITE_EXTRA_HEADERS", text), ("KAKITE_MODEL_OPTIONS", patterns)):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, **{variable: value})
        assert variable in caught.value.message
        assert SECRET not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{a: b,\n c: d", "line 2: expected ',' or '}', but got '<stream end>'"),
        ("a: *bcd", "line 1: found undefined alias …"),
    ],
)
def test_the_reason_why_it_is_no_yaml_stays(broken: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, KAKITE_EXTRA_BODY=broken)
    assert caught.value.message.endswith(reason)


def test_a_file_that_is_no_yaml_is_told_without_what_stands_in_it(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"extra_headers:\n  X-A: *{SECRET}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, KAKITE_CONFIG=str(file))
    assert caught.value.code == "unreadable_config"
    assert "line 2" in caught.value.message
    assert SECRET not in caught.value.message


def load(folder: Path, **variables: str) -> Settings:
    return load_settings({}, {"XDG_CONFIG_HOME": str(folder / "config"), **variables})


def test_a_repository_s_own_file_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "extra_headers: {X-Steal: '${AWS_SECRET_ACCESS_KEY}'}\nmodel_options: {'*': {temperature: 1}}\n"
    (tmp_path / "kakite.yaml").write_text(lines, encoding="utf-8")
    assert build_model_options(load(tmp_path)) == ()
    own = build_model_options(load(tmp_path, KAKITE_CONFIG="kakite.yaml", KAKITE_MODEL="openai:m"))
    assert choose_options("openai:m", own).headers == {"X-Steal": "${AWS_SECRET_ACCESS_KEY}"}


def test_what_is_said_for_one_provider_goes_to_no_other(tmp_path: Path) -> None:
    said = {"KAKITE_MODEL": "openai:m", "KAKITE_EXTRA_HEADERS": "{X-A: own}", "KAKITE_TEMPERATURE": "0.1"}
    patterns = "{'openai:*': {temperature: 1, extra_body: {a: 1}}, 'google:*': {effort: low}}"
    options = build_model_options(load(tmp_path, **said, KAKITE_MODEL_OPTIONS=patterns))
    ours, other = choose_options("openai:m", options), choose_options("google:m", options)
    assert (ours.temperature, ours.headers, ours.body) == (0.1, {"X-A": "own"}, {"a": 1})
    assert (other.temperature, other.headers, other.body, other.effort) == (None, {}, {}, "low")


@pytest.mark.slow
def test_a_model_that_takes_part_in_a_debate_is_asked_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    patterns = "{'openai:*': {extra_headers: {X-Gateway: '${GATEWAY}'}, extra_body: {seed: 7}}}"
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "KAKITE_DEBATE_PARTICIPANTS": "{third: {model: 'openai:gpt-5'}}",
        "KAKITE_MODEL_OPTIONS": patterns,
        "KAKITE_EFFORT": "low",
        "GATEWAY": SECRET,
    }
    with serving(wire.stream_openai) as server:
        (side,) = load_participants(["third"], {**environ, "OPENAI_BASE_URL": f"{server.url}/v1"})
        asyncio.run(asyncio.wait_for(side.ask("Why?"), WITHIN))
    (asked,) = server.asked
    assert asked.headers["x-gateway"] == SECRET
    assert (asked.body["seed"], asked.body["reasoning_effort"]) == (7, "low")

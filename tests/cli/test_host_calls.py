"""``kakite host call``, and what is kept of calls: rules, the trace, logs; with real servers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.bounds import WITHIN
from tests.cli.hosted import SECRET, Hosted, assert_hidden, wait_for
from tests.cli.program import argv, environment
from tests.forking import popen, run
from tests.host.project import tool


@pytest.fixture
def project(tmp_path: Path) -> Hosted:
    return Hosted(tmp_path)


# Calls


@pytest.fixture
def ready(project: Hosted) -> Hosted:
    """A server that is accepted, with tools of every kind."""
    does = {
        "tell": {"text": "no line end"},
        "odd": {"text": "a\x1b[31mb\u202ec\r\x07\n語"},
        "fail": {"text": "it went wrong", "error": True},
        "die": {"die": True},
        "wait": {"wait": str(project.scripts / "waiting")},
    }
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = [tool(name) for name in ("say", *does)] + [tool("read_file", inputSchema=schema)]
    entry = {**project.told("server", *tools, does=does), "toolTimeouts": {"wait": 1}}
    project.write({"server": entry})
    project.accept()
    return project


@pytest.mark.slow
def test_the_result_of_a_call_is_its_text_exactly(ready: Hosted) -> None:
    done = run(
        argv("host", "call", "server", "odd", "--yes"),
        env=environment(ready.home),
        cwd=ready.folder,
        timeout=90,
    )
    assert (done.returncode, done.stdout.decode()) == (0, "a\x1b[31mb\u202ec\r\x07\n語\n")
    outcome = ready.host("call", "server", "tell", "--yes", "--json")
    assert outcome.json == {"ok": True, "code": "", "text": "no line end", "details": {}, "images": []}


def test_how_far_a_call_is_is_shown_to_no_file_and_no_pipe(project: Hosted) -> None:
    does = {"say": {"progress": [[1, 2, "half"]], "text": "done"}}
    project.write({"server": project.told("server", tool("say"), does=does)}, user=True)
    outcome = project.host("call", "server", "say", "--yes")
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")


@pytest.mark.slow
def test_arguments_arrive_as_they_were_given_also_from_standard_input(ready: Hosted) -> None:
    given = {"a": [1, 2.5, None, {"b": "語\u202e"}], "c": True}
    outcome = ready.host("call", "server", "say", "--yes", "--args", json.dumps(given))
    assert outcome.json == given
    done = run(
        argv("host", "call", "server", "say", "-y", "--args", "-"),
        env=environment(ready.home),
        cwd=ready.folder,
        given=json.dumps(given),
        encoding="utf-8",
        timeout=60,
    )
    assert json.loads(done.stdout) == given


@pytest.mark.parametrize("words", [("call", "git", "git_status"), ("logs", "git"), ("login", "git")])
def test_where_no_server_is_configured_the_hint_says_how_one_comes_to_be(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    outcome = Hosted(tmp_path).host(*words)
    assert (outcome.code, outcome.stdout) == (2, "")
    (hint,) = re.findall(r"^hint: (.*)$", outcome.stderr, re.MULTILINE)
    assert "kakite host import" in hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["server", "say"], 1, "approval_required"),
        (["server", "fail", "--yes"], 1, "tool_failed"),
        (["server", "read_file", "--yes"], 1, "invalid_arguments"),
        (["server", "red_file", "--yes"], 1, "unknown_tool"),
        (["server", "die", "--yes"], 3, "server_failed"),
        (["server", "wait", "--yes"], 3, "call_timed_out"),
        (["servr", "say", "--yes"], 2, "unknown_server"),
        (["server", "say", "--args", "[1]"], 2, "bad_usage"),
        (["server", "say", "--args", "{"], 2, "bad_usage"),
    ],
)
def test_a_call_that_did_not_succeed_has_its_exit_code_and_code(
    words: list[str], exit_code: int, code: str, ready: Hosted
) -> None:
    plain = ready.host("call", *words)
    assert (plain.code, plain.stdout) == (exit_code, "")
    assert code in plain.stderr
    assert len(re.findall(r"\n *hint: |^hint: ", plain.stderr)) <= 1
    outcome = ready.host("call", *words, "--json")
    assert outcome.code == exit_code
    if exit_code == 2:
        assert (outcome.json["error"]["code"], code in outcome.stderr) == (code, True)
    else:
        assert (outcome.json["ok"], outcome.json["code"]) == (False, code)


def test_a_server_that_does_not_start_fails_the_call_with_its_last_words(project: Hosted) -> None:
    project.write({"weak": project.told("weak", start="die", say="no license")}, user=True)
    outcome = project.host("call", "weak", "say", "--yes")
    assert outcome.code == 3
    assert "no license" in outcome.stderr
    assert project.host("call", "weak", "say", "--yes", "--json").json["code"] == "server_not_started"


def test_a_variable_that_is_not_set_fails_the_server_and_is_named(project: Hosted) -> None:
    project.write({"server": {**project.told("server"), "env": {"A": "${NOT_SET_ANYWHERE}"}}}, user=True)
    seen = project.seen()["server"]
    assert (seen["state"], seen["code"]) == ("failed", "unset_variable")
    assert "NOT_SET_ANYWHERE" in seen["reason"]
    assert project.host("call", "server", "say", "--yes").code == 3


def test_unknown_names_give_the_nearest(ready: Hosted) -> None:
    for words, near in [
        (["call", "servr", "say"], "server"),
        (["call", "server", "read_fil", "--yes"], "read_file"),
        (["accept", "sever"], "server"),
        (["logs", "servre"], "server"),
        (["import", "cursr"], "cursor"),
    ]:
        outcome = ready.host(*words)
        assert (outcome.code != 0, near in outcome.stderr) == (True, True), (words, outcome)


def test_yes_allows_what_no_rule_forbids(ready: Hosted) -> None:
    assert ready.host("rules", "add", "ask", "server__say").code == 0
    assert ready.host("call", "server", "say", "--yes").code == 0
    assert ready.host("rules", "add", "deny", "server__s*").code == 0
    refused = ready.host("call", "server", "say", "--yes", "--json")
    assert (refused.code, refused.json["code"]) == (1, "denied")


def test_a_long_result_is_cut_and_kept_whole_in_a_file_for_the_person_alone(project: Hosted) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    project.write({"server": project.told("server", tool("long"), does={"long": {"text": text}})}, user=True)
    outcome = project.host("call", "server", "long", "--yes")
    assert len(outcome.stdout.encode()) <= 50 * 1024 + 1
    found = re.search(r"the whole is in (\S+?):", outcome.stdout)
    assert found
    kept = Path(found[1])
    assert kept.read_text(encoding="utf-8") == text
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_interrupted_a_call_ends_at_once_and_leaves_no_process(ready: Hosted) -> None:
    ready.write(
        {
            "server": {
                **json.loads(ready.file.read_text(encoding="utf-8"))["servers"]["server"],
                "toolTimeouts": {},
            }
        }
    )
    running = popen(
        argv("host", "call", "server", "wait", "--yes"),
        env=environment(ready.home),
        cwd=ready.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    waiting = ready.scripts / "waiting"
    wait_for(lambda: waiting.exists() and "called" in waiting.read_text(encoding="utf-8"))
    running.send_signal(signal.SIGINT)
    _stdout, stderr = running.communicate(timeout=WITHIN)
    assert (running.returncode, "Traceback" in stderr) == (130, False)
    assert ready.left() == []


# Secrets, and what strangers write


@pytest.mark.slow
def test_values_of_variables_are_in_no_output_log_or_trace(project: Hosted) -> None:
    entry = project.told("server", start="", say=f"using {SECRET}", does={"say": {"die": True}})
    entry["args"] = [*entry["args"], "--key=${KEY}"]
    weak = {**project.told("weak", start="die", say=f"bad {SECRET}"), "env": {"PLAIN": "${KEY}"}}
    remote = {
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"Authorization": "Bearer ${KEY}", "X-Other": SECRET},
    }
    literal = project.told("literal", start="die", say=f"token {SECRET}")
    literal["args"] = [
        *literal["args"],
        "--token",
        SECRET,
        f"--exa-api-key={SECRET}",
        f"https://me:{SECRET}@h",
    ]
    query = {"url": f"http://127.0.0.1:9/mcp?exaApiKey={SECRET}", "oauth": {"id": "me", "secret": SECRET}}
    servers = {"server": entry, "weak": weak, "remote": remote, "literal": literal, "query": query}
    project.write(servers)
    env = {"KEY": SECRET}
    project.accept(env=env)
    commands = [
        ["accept"],
        ["tools"],
        ["tools", "--json"],
        ["check", "--json"],
        ["call", "server", "say", "--yes"],
        ["call", "weak", "say", "--yes"],
        ["call", "remote", "say", "--yes", "--json"],
        ["trace", "--json"],
        ["logs"],
    ]
    assert_hidden(project, *(project.host(*words, env=env) for words in commands))


def test_nothing_that_strangers_write_reaches_a_person_as_it_is(project: Hosted) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202eevil\u2066\x9b1m\r"
    entry = project.told("server", tool(f"say{evil}", f"Says{evil}", title=evil), say=evil, start="")
    bad = {**project.told("bad", start="die", say=evil)}
    project.write({f"server{evil}": entry, "bad": bad, f"new{evil}": {"command": evil}}, user=True)
    project.write({"theirs": {**project.told("theirs"), "args": [evil], "env": {evil: evil}}, evil: 3})
    for words in (
        ["tools"],
        ["accept", "theirs"],
        ["check"],
        ["logs"],
        ["call", "bad", evil, "--yes"],
        ["call", evil, "x"],
    ):
        outcome = project.host(*words)
        for text in (outcome.stdout, outcome.stderr):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), (
                words,
                text,
            )


# Rules


def test_rules_are_added_listed_obeyed_and_removed(ready: Hosted) -> None:
    assert "no rules" in ready.host("rules").stderr
    added = ready.host("rules", "add", "allow", "server__read_*", "--when", "path=path:src/**")
    assert (added.code, "server__read_*" in added.stdout) == (0, True)
    [told] = ready.host("rules", "--json").json["rules"]
    assert told.pop("made")
    assert told == {
        "number": 1,
        "allow": "server__read_*",
        "arguments": {"path": {"path": "src/**"}},
        "project": str(ready.folder),
    }
    call = ("call", "server", "read_file", "--args")
    assert ready.host(*call, '{"path": "src/a/b"}').code == 0
    for outside in ("/etc/passwd", "src/../x", "other/src/a"):
        assert ready.host(*call, json.dumps({"path": outside})).code == 1
    assert ready.host("rules", "remove", "1").code == 0
    assert ready.host(*call, '{"path": "src/a/b"}').code == 1
    missing = ready.host("rules", "remove", "1")
    assert (missing.code, "no_such_rule" in missing.stderr) == (1, True)


def test_the_rules_that_count_here_are_listed_and_removed_all_or_none(project: Hosted) -> None:
    other = project.top / "other"
    other.mkdir()
    assert project.host("rules", "add", "allow", "server__say").code == 0
    assert project.host("rules", "--json", cwd=other).json == {"rules": [], "elsewhere": 1}
    assert "--all" in project.host("rules", cwd=other).stderr
    assert "server__say" in project.host("rules", "--all", cwd=other).stdout
    refused = project.host("rules", "remove", "1", "99")
    assert (refused.code, "no_such_rule" in refused.stderr, "99" in refused.stderr) == (1, True, True)
    assert len(project.host("rules", "--json").json["rules"]) == 1, "nothing was removed"


@pytest.mark.slow
def test_a_rule_of_one_project_holds_there_and_one_for_everywhere_everywhere(ready: Hosted) -> None:
    other = ready.top / "other"
    (other / ".pi").mkdir(parents=True)
    (other / ".pi" / "mcp-servers.json").write_bytes(ready.file.read_bytes())
    ready.accept("server", cwd=other)
    assert ready.host("rules", "add", "allow", "server__say").code == 0
    assert ready.host("call", "server", "say").code == 0
    assert ready.host("call", "server", "say", cwd=other).code == 1
    assert ready.host("rules", "add", "allow", "server__tell", "--everywhere").code == 0
    assert ready.host("call", "server", "tell", cwd=other).code == 0


@pytest.mark.parametrize(
    "words",
    [["alow", "x"], ["allow", ""], ["allow", "x", "--when", "path"], ["allow", "x", "--when", "=y"]],
)
def test_a_rule_that_makes_no_sense_is_wrong_usage(words: list[str], project: Hosted) -> None:
    outcome = project.host("rules", "add", *words)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "hint" in outcome.stderr
    assert project.host("rules", "--json").json["rules"] == []


def test_rules_that_cannot_be_read_let_nothing_go(ready: Hosted) -> None:
    assert ready.host("rules", "add", "deny", "server__x").code == 0
    (ready.state / "host" / "rules.json").write_text("{", encoding="utf-8")
    assert "rules_unusable" in ready.host("rules").stderr
    refused = ready.host("call", "server", "say", "--yes", "--json")
    assert (refused.code, refused.json["code"]) == (1, "rules_unusable")


# Trace and logs


def test_the_trace_tells_of_each_call_and_holds_no_argument(ready: Hosted) -> None:
    ready.host("call", "server", "say", "--args", json.dumps({"text": "private words"}), "--yes")
    ready.host("call", "server", "say", "--args", json.dumps({"text": "private words"}))
    outcome = ready.host("trace", "--json")
    made, refused = map(json.loads, outcome.stdout.splitlines())
    assert (made["server"], made["tool"], made["decision"], made["is_error"]) == (
        "server",
        "say",
        "allow",
        False,
    )
    assert (refused["decision"], refused["by"], refused["code"]) == ("deny", "nobody", "approval_required")
    assert "private" not in outcome.stdout
    ready.host("call", "server", "say", "--args", '{"text": "shown", "token": "x"}', "--yes", "--trace-args")
    told = json.loads(ready.host("trace", "--json", "-n", "1").stdout)
    assert told["arguments"] == {"text": "shown", "token": "[redacted]"}
    ready.host("call", "server", "say")
    plain = ready.host("trace", "-n", "1").stdout
    assert plain.count("\n") == 1
    assert "server  say  approval_required" in plain


def test_the_log_of_a_server_is_shown_and_of_all_with_their_names(project: Hosted) -> None:
    servers = {name: project.told(name, say=f"I am {name}") for name in ("one", "two")}
    project.write(servers, user=True)
    assert "wrote nothing" in project.host("logs", "one").stderr
    project.seen()
    assert project.host("logs", "one").stdout == "I am one\n"
    assert project.host("logs").stdout == "I am one\nI am two\n"
    assert project.host("logs", "one", "-n", "0").stdout == ""
    assert project.host("logs", "-f").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [["logs", "server", "-f"], ["trace", "-f", "--json"]])
def test_what_is_added_is_followed(words: list[str], project: Hosted) -> None:
    project.write({"server": project.told("server", say="I am here")}, user=True)
    following = popen(
        argv("host", *words),
        env=environment(project.home),
        cwd=project.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert following.stdout
    assert following.stderr
    try:
        assert following.stderr.readline()  # that there is nothing yet
        for _ in range(2):
            project.host("call", "server", "say", "--yes")
            assert "server" in (line := following.stdout.readline()) or "I am here" in line
    finally:
        following.send_signal(signal.SIGINT)
        _stdout, stderr = following.communicate(timeout=WITHIN)
    assert (following.returncode, stderr) == (130, "")

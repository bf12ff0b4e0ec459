"""A participant's program in its sandbox: what it sees, what it reaches, and what becomes of its login."""

from __future__ import annotations

import asyncio
import json
import os
import string
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate.answers import Answer, ParticipantFailure
from kakite.debate.model import DebateError
from kakite.debate.participants.base import CliParticipant, create_claude, create_codex
from kakite.debate.participants.cli_sandbox import CliAccess, find_hosts, locate_program
from kakite.debate.participants.factory import create_participant
from kakite.sandbox import SandboxError, try_out
from tests.bounds import WITHIN
from tests.clients.model import answering
from tests.debate.arguing import CODEX
from tests.debate.serving import MARK, living

LOGIN = '{"token": "old"}'
RENEWED = '{"token": "new"}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a login and a private file, on a machine that has bubblewrap."""
    try:
        asyncio.run(try_out("bubblewrap"))
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    folder = tmp_path / "home"
    (folder / ".side").mkdir(parents=True)
    (folder / ".side/login.json").write_text(LOGIN, encoding="utf-8")
    (folder / "private.txt").write_text("the-private-text", encoding="utf-8")
    return folder


def side(home: Path, code: str, **changes: Any) -> CliParticipant:
    """Return a program in the person's home that runs this code of Python."""
    program = home / "bin/side"
    program.parent.mkdir(exist_ok=True)
    version = "import sys\nif '--version' in sys.argv: sys.exit(print('1.0') or 0)\n"
    program.write_text(f"#!{sys.executable}\n{version}{code}", encoding="utf-8")
    program.chmod(0o755)
    made = CliParticipant(
        side=CODEX,
        command=(str(program),),
        access=CliAccess(login={".side/login.json": home / ".side/login.json"}),
        environ={"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home), "TOKEN": "of-the-person"},
        time=60.0,
    )
    return replace(made, **changes)


def ask(made: CliParticipant, prompt: str = "Why?") -> Answer:
    async def bounded() -> Answer:
        async with asyncio.timeout(WITHIN):
            reply = await made.ask(prompt)
        assert isinstance(reply, Answer), reply
        return reply

    return asyncio.run(bounded())


LOOK = """
import json, os, sys
from pathlib import Path
def read(path):
    try: return Path(path).read_text()
    except OSError as error: return type(error).__name__
print(json.dumps({"asked": sys.stdin.read(), "home": read(*sys.argv[1:] or ["/none"]),
    "env": dict(os.environ), "login": read(Path.home() / ".side/login.json"), "folder": os.listdir("."),
    "user": os.listdir("/home")}))
"""


def test_it_sees_its_login_and_nothing_else_of_the_person(home: Path) -> None:
    made = side(home, LOOK)
    seen = json.loads(ask(replace(made, command=(*made.command, str(home / "private.txt")))).text)
    assert seen["asked"] == "Why?"
    assert seen["login"] == LOGIN
    assert seen["home"] == "FileNotFoundError"
    assert (seen["folder"], seen["user"]) == ([], [])
    assert "TOKEN" not in seen["env"]
    assert str(home) not in json.dumps(seen["env"])


def test_variables_that_it_may_have_are_there(home: Path) -> None:
    seen = json.loads(ask(side(home, LOOK, passes=("TOKEN",), sets={"MODE": "quiet"})).text.strip())
    assert (seen["env"]["TOKEN"], seen["env"]["MODE"]) == ("of-the-person", "quiet")


RENEW = f"""
from pathlib import Path
(Path.home() / ".side/login.json").write_text({RENEWED!r})
print("done")
"""


def test_a_login_that_it_renews_is_put_back(home: Path) -> None:
    assert ask(side(home, RENEW)).text == "done"
    assert (home / ".side/login.json").read_text(encoding="utf-8") == RENEWED
    assert (home / ".side/login.json").stat().st_mode & 0o777 == 0o600


SPOILED: Mapping[str, str] = {
    "no JSON": "write_text('{')",
    "none any more": "unlink()",
    "empty": "write_text('')",
    "a list": "write_text('[]')",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_login_that_it_spoils_stays_as_it_was(how: str, home: Path) -> None:
    code = f"from pathlib import Path\n(Path.home() / '.side/login.json').{SPOILED[how]}\nprint('done')"
    assert ask(side(home, code)).text == "done"
    assert (home / ".side/login.json").read_text(encoding="utf-8") == LOGIN


def test_a_link_in_the_place_of_its_login_leads_to_nothing(home: Path) -> None:
    (home / "other.json").write_text('{"token": "another"}', encoding="utf-8")
    code = f"""
import os, shutil
shutil.rmtree(os.path.expanduser("~/.side"))
os.symlink({str(home)!r}, os.path.expanduser("~/.side"))
print("done")
"""
    linked = CliAccess(login={".side/other.json": home / ".side/login.json"})
    assert ask(side(home, code, access=linked)).text == "done"
    assert (home / ".side/login.json").read_text(encoding="utf-8") == LOGIN


def test_a_login_that_the_person_renews_meanwhile_stays_theirs(home: Path) -> None:
    made = side(home, f"{RENEW}\nimport sys\nsys.stdin.read()")
    theirs = '{"token": "theirs"}'

    def renew(_: str) -> None:
        (home / ".side/login.json").write_text(theirs, encoding="utf-8")

    async def bounded() -> None:
        async with asyncio.timeout(WITHIN):
            events = 'print(\'{"type": "turn.started"}\', flush=True)\n'
            spoken = side(home, events + RENEW, reader="codex")
            await spoken.ask("Why?", on_progress=renew)

    asyncio.run(bounded())
    assert made.access
    assert (home / ".side/login.json").read_text(encoding="utf-8") == theirs


FETCH = """
import sys, urllib.request
for address in sys.argv[1:]:
    try: print(urllib.request.urlopen(address, timeout=20).status)
    except OSError as error: print(getattr(error, "code", type(error).__name__))
"""


def test_it_reaches_the_hosts_that_it_needs_and_no_other(home: Path) -> None:
    def answer(path: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
        raise AssertionError((path, request))  # a program only gets, which is a 404

    with answering(answer) as near, answering(answer) as other:
        code = f"import sys\nsys.argv += [{near!r}, {other!r}, 'http://pypi.org']\n{FETCH}"
        access = CliAccess(hosts=(near.removeprefix("http://"),))
        assert ask(side(home, code, access=access)).text.split() == ["404", "403", "403"]
        given = ask(side(home, code, sets={"BASE_URL": other})).text.split()
        assert given == ["403", "404", "403"], "the host of an address that it is given"


def test_what_is_left_of_it_ends_with_it(home: Path) -> None:
    marked = {MARK: str(home)}
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)"

    async def bounded() -> object:
        async with asyncio.timeout(WITHIN):
            return await side(home, code, sets=marked, time=2.0).ask("Why?")

    reply = asyncio.run(bounded())
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "timed_out"
    assert living(home) == []


def test_without_a_sandbox_it_runs_as_before_and_says_so(home: Path) -> None:
    made = side(home, "print('done')")
    (home / "only").mkdir()
    environ = {**made.environ, "PATH": str(home / "only")}
    answer = ask(replace(made, environ=environ))
    assert answer.text == "done"
    assert ["bwrap" in note for note in answer.notes] == [True]


def test_one_that_does_not_start_in_it_says_so(home: Path) -> None:
    code = f"import os, sys\nsys.exit('no home') if not os.path.isdir({str(home)!r}) else print('done')"
    made = side(home, "")
    program = Path(made.command[0])
    program.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    answer = ask(made)
    assert answer.text == "done"
    assert ["no home" in note for note in answer.notes] == [True]


@given(st.text(string.ascii_lowercase, min_size=1, max_size=20), st.integers(1, 65535), st.text(max_size=20))
def test_the_hosts_of_addresses_are_found_wherever_they_stand(name: str, port: int, around: str) -> None:
    around = around.replace("/", "").replace(":", "")
    found = find_hosts([f'{around} x="https://me@{name}.example:{port}/v1?{around}" http://{name}.example'])
    assert found == (f"{name}.example:{port}", f"{name}.example")


def test_a_program_of_npm_is_shown_with_its_packages_and_its_interpreter(tmp_path: Path) -> None:
    package = tmp_path / "lib/node_modules/@some/side/bin/side.js"
    package.parent.mkdir(parents=True)
    package.write_text("#!/usr/bin/env node\n", encoding="utf-8")
    package.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/node").write_text("", encoding="utf-8")
    (tmp_path / "bin/node").chmod(0o755)
    (tmp_path / "bin/side").symlink_to(package)
    argv, mounts, search = locate_program(("side", "--json"), str(tmp_path / "bin"))
    node, program, flag = argv
    assert flag == "--json"
    assert program.endswith("/node_modules/@some/side/bin/side.js")
    assert search == (str(Path(node).parent),)
    assert set(mounts.values()) == {tmp_path / "lib/node_modules", tmp_path / "bin/node"}


def test_ours_run_in_a_sandbox_and_a_command_of_ones_own_does_if_that_says_so() -> None:
    environ = {"HOME": "/home/me", "CODEX_HOME": "/data/codex"}
    assert create_codex(environ).access == CliAccess(
        hosts=("chatgpt.com", "api.openai.com", "auth.openai.com"),
        login={".codex/auth.json": Path("/data/codex/auth.json")},
        client="codex",
    )
    assert create_claude(environ, ("claude", "-p")).access is None
    given = {
        "command": ["gemini"],
        "sandbox": True,
        "hosts": ["*.googleapis.com"],
        "login": ["~/.gemini/c.json"],
    }
    made = create_participant("gemini", environ, given)
    assert isinstance(made, CliParticipant)
    assert made.access == CliAccess(
        hosts=("*.googleapis.com",), login={".gemini/c.json": Path("/home/me/.gemini/c.json")}
    )
    plain = create_participant("codex", environ, {"sandbox": False})
    assert isinstance(plain, CliParticipant)
    assert plain.access is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"sandbox": "yes"},
        {"sandbox": True, "hosts": ["https://x.example"]},
        {"hosts": ["x.example"]},
        {"sandbox": True, "login": ["/etc/shadow"]},
        {"sandbox": True, "login": ["../other/.netrc"]},
    ],
)
def test_settings_of_a_sandbox_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DebateError) as caught:
        create_participant("gemini", {"HOME": "/home/me"}, {"command": ["gemini"], **wrong})
    assert caught.value.code == "bad_participant"

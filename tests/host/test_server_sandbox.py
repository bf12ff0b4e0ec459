"""A server in a sandbox of its own: what it sees, writes and reaches, and what a person agrees to."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.import_clients import serialize_entry
from kakite.host.config.load import load_config
from kakite.host.config.model import ServerEntry, ServerSandbox, StdioServer
from kakite.host.config.parse import SANDBOX_KEYS, EntryLocation, read_entry
from kakite.host.consent.canonical import compute_entry_digest, describe
from kakite.host.server.server import Server, ServerError
from kakite.sandbox import SandboxError, try_out
from tests.bounds import WITHIN
from tests.host.making import ROUGH, call, marked, rough, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def folders(tmp_path: Path) -> Path:
    """Return a folder with a home, a project that is a repository, and data, where bubblewrap works."""
    try:
        await try_out("bubblewrap")
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    for name in ("home/.ssh", "project/.git/hooks", "data", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.ssh/key").write_text("private", encoding="utf-8")
    (tmp_path / "project/code.py").write_text("code", encoding="utf-8")
    (tmp_path / "project/.git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (tmp_path / "data/facts").write_text("facts", encoding="utf-8")
    return tmp_path


@asynccontextmanager
async def inside(folders: Path, server: ServerEntry | None = None, **wanted: Any) -> AsyncGenerator[Server]:
    """Yield the server of an entry in a sandbox with what is wanted."""
    entry = server or rough()
    assert isinstance(entry.reached, StdioServer)
    wanted["read"] = (str(ROUGH.parent), *wanted.get("read", ()))
    entry = replace(entry, reached=replace(entry.reached, sandbox=ServerSandbox(**wanted)))
    environ = {"PATH": f"{folders / 'bin'}:{os.environ['PATH']}", "HOME": str(folders / "home")}
    async with serving(entry, folders, environ=environ, project=folders / "project") as made:
        yield made


async def attempt(server: Server, **what: object) -> str:
    with anyio.fail_after(WITHIN):
        return (await server.call(call("attempt", **what))).text


async def test_it_sees_nothing_of_the_person_by_itself(folders: Path) -> None:
    async with inside(folders) as server:
        for path in ("home/.ssh/key", "project/code.py", "data/facts"):
            assert await attempt(server, read=str(folders / path)) == "FileNotFoundError"
        environment = json.loads((await server.call(call("environment"))).text)
        assert str(folders / "home") not in environment["HOME"]
        assert (await server.call(call("folder"))).text == environment["HOME"]
        assert await attempt(server, list=environment["HOME"]) == ""


async def test_what_it_may_read_it_cannot_write(folders: Path) -> None:
    async with inside(folders, read=("../data", str(folders / "project"))) as server:
        assert await attempt(server, read=str(folders / "data/facts")) == "facts"
        assert await attempt(server, write=str(folders / "data/new")) == "OSError"
        assert (await server.call(call("folder"))).text == str(folders / "project")
        assert await attempt(server, read=str(folders / "home/.ssh/key")) == "FileNotFoundError"


async def test_what_it_may_write_keeps_what_git_obeys(folders: Path) -> None:
    async with inside(folders, write=str(folders / "project")) as server:
        assert await attempt(server, write=str(folders / "project/new")) == "done"
        assert await attempt(server, write=str(folders / "project/.git/hooks/post-commit")) == "OSError"
        assert await attempt(server, write=str(folders / "data/new")) == "FileNotFoundError"
    assert (folders / "project/new").read_text(encoding="utf-8") == "written"
    assert not list((folders / "project/.git/hooks").iterdir())


@pytest.fixture
def address() -> Any:
    """Serve on this machine; return the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.05,))
        thread.start()
        yield served.server_port
        served.shutdown()
        thread.join(WITHIN)


async def test_it_reaches_the_hosts_that_are_named_and_no_other(folders: Path, address: int) -> None:
    async with inside(folders) as server:
        assert await attempt(server, connect=["127.0.0.1", address]) == "ConnectionRefusedError"
        assert await attempt(server, fetch=f"http://127.0.0.1:{address}/") == "URLError"
    async with inside(folders, hosts=(f"127.0.0.1:{address}",)) as server:
        assert await attempt(server, fetch=f"http://127.0.0.1:{address}/") == "200"
        assert await attempt(server, fetch=f"http://localhost:{address}/") == "HTTPError"
        assert await attempt(server, connect=["127.0.0.1", address]) == "ConnectionRefusedError"


async def test_it_ends_with_the_host_and_leaves_nothing(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid4().hex
    monkeypatch.setattr(tempfile, "tempdir", str(folders / "data"))
    async with inside(folders, rough(env={"MARK": mark}, child="setsid", stubborn=["eof", "term"])) as server:
        await server.start()
        assert marked(mark)
        assert list((folders / "data").glob("kakite-server-*"))
    with anyio.fail_after(WITHIN):
        while marked(mark):
            await anyio.lowlevel.checkpoint()
    assert [file.name for file in (folders / "data").iterdir()] == ["facts"]


@pytest.mark.parametrize("launcher", ["environment", "script", "link"])
async def test_a_program_of_a_virtual_environment_starts_by_each_of_its_names(
    folders: Path, launcher: str
) -> None:
    made = folders / "tools/server"
    (made / "bin").mkdir(parents=True)
    (made / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n", encoding="utf-8")
    (made / "bin/python").symlink_to(Path(sys.base_prefix) / "bin/python3")
    library = made / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    library.mkdir(parents=True)
    shutil.copy(ROUGH, library / "rough.py")
    script = made / "bin/serve"
    script.write_text(f"#!{made / 'bin/python'}\nimport rough\nrough.main()\n", encoding="utf-8")
    script.chmod(0o755)
    (folders / "bin/serve-it").symlink_to(script)
    command, args = {
        "environment": (str(made / "bin/python"), ("-m", "rough")),
        "script": (str(script), ()),
        "link": ("serve-it", ()),
    }[launcher]
    entry = replace(rough(), reached=StdioServer(command=command, args=args))
    async with inside(folders, entry) as server:
        assert (await server.call(call("echo", value="x"))).text == '{"value": "x"}'


@pytest.mark.parametrize("kind", ["environment", "interpreter"])
async def test_what_an_interpreter_belongs_to_is_never_shown_with_the_home(folders: Path, kind: str) -> None:
    home = folders / "home"
    (home / "bin").mkdir()
    base = Path(sys.base_prefix)
    (home / "bin/python3").symlink_to(base / "bin/python3")
    if kind == "environment":
        (home / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n", encoding="utf-8")
    else:
        (home / "lib").symlink_to(base / "lib")
    entry = rough()
    assert isinstance(entry.reached, StdioServer)
    entry = replace(entry, reached=replace(entry.reached, command=str(home / "bin/python3")))
    async with inside(folders, entry) as server:
        assert await attempt(server, read=str(home / ".ssh/key")) == "FileNotFoundError"


async def test_a_program_is_found_as_without_a_sandbox(folders: Path) -> None:
    tools = folders / "project/tools"
    tools.mkdir()
    (tools / "python").symlink_to(Path(sys.base_prefix) / "bin/python3")
    entry = rough()
    assert isinstance(entry.reached, StdioServer)
    for command, env in (("./tools/python", {}), ("python", {"PATH": str(tools)})):
        named = replace(entry.reached, command=command, env=env)
        async with inside(folders, replace(entry, reached=named)) as server:
            assert (await server.call(call("echo", value="x"))).text == '{"value": "x"}'


@pytest.mark.parametrize(
    "wanted", [{"read": ("../gone",)}, {"write": "../home/.."}, {"read": ("/",)}, {"read": ("",)}]
)
async def test_a_folder_that_is_not_there_or_holds_the_home_is_refused(
    folders: Path, wanted: dict[str, Any]
) -> None:
    async with inside(folders, **wanted) as server:
        with pytest.raises(ServerError) as caught:
            await server.start()
    assert (caught.value.code, bool(caught.value.hint)) == ("server_not_started", True)


async def test_without_bubblewrap_it_does_not_start(folders: Path) -> None:
    entry = rough()
    assert isinstance(entry.reached, StdioServer)
    mark = folders / "mark"
    entry = replace(rough(mark=str(mark)), reached=replace(entry.reached, sandbox=ServerSandbox()))
    async with serving(entry, folders, environ={"PATH": str(folders), "HOME": str(folders)}) as server:
        with pytest.raises(ServerError) as caught:
            await server.start()
    assert (caught.value.code, mark.exists()) == ("server_not_started", False)


# What an entry says


def read(sandbox: object) -> tuple[ServerEntry | None, int]:
    place = EntryLocation(file="mcp.json", scope="project", line=lambda _: 1)
    entry, problems = read_entry("one", {"command": "server", "sandbox": sandbox}, place)
    return entry, len(problems)


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        TEXTS,
        st.integers(),
        st.dictionaries(
            st.one_of(st.sampled_from([*SANDBOX_KEYS, "reads"]), TEXTS),
            st.one_of(st.none(), TEXTS, st.lists(TEXTS, max_size=3), st.booleans()),
            max_size=3,
        ),
    )
)
def test_an_entry_starts_without_a_sandbox_only_where_none_is_asked_for(sandbox: object) -> None:
    entry, problems = read(sandbox)
    if entry is None:
        assert problems
        return
    assert isinstance(entry.reached, StdioServer)
    assert (entry.reached.sandbox is None) == (sandbox is None or sandbox is False)
    if isinstance(sandbox, dict):
        assert set(cast("dict[str, object]", sandbox)) <= set(SANDBOX_KEYS)


def test_what_a_sandbox_gives_is_a_part_of_what_a_person_agrees_to() -> None:
    forms = [
        None,
        True,
        {"read": ["${workspaceFolder}"]},
        {"write": "${workspaceFolder}"},
        {"hosts": ["api.example"]},
        {"hosts": ["*.api.example"]},
    ]
    entries = [entry for entry, _ in map(read, forms) if entry]
    assert len({compute_entry_digest(entry) for entry in entries}) == len(forms)
    assert len({describe(entry) for entry in entries}) == len(forms)


@given(
    st.one_of(
        st.just(True),
        st.fixed_dictionaries(
            {},
            optional={
                "read": st.lists(TEXTS, max_size=2),
                "write": TEXTS,
                "hosts": st.lists(
                    st.sampled_from(["a.example", "*.b.example", "c.example:8080"]), max_size=2
                ),
            },
        ),
    )
)
def test_a_sandbox_goes_along_when_an_entry_is_copied(sandbox: object) -> None:
    entry, _ = read(sandbox)
    assert entry
    place = EntryLocation(file="mcp.json", scope="project", line=lambda _: 1)
    copied, problems = read_entry("one", serialize_entry(entry), place)
    assert copied
    assert not problems
    assert copied.reached == entry.reached


def test_a_server_elsewhere_has_no_sandbox(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    servers = {"far": {"url": "https://far.example/mcp", "sandbox": True}}
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    found = load_config(tmp_path, {"HOME": str(tmp_path / "home")})
    assert not found.entries
    assert [problem.fatal for problem in found.problems] == [True]

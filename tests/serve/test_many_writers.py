"""Several servers whose clients all edit one file at once: each edit lands, none is refused, none is lost."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import WITHIN
from tests.forking import COMMAND, popen


class Writer:
    """A client by hand of a server of its own."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self.refused: list[str] = []
        client = {"name": "test", "version": "0"}
        self._ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self._send(method="notifications/initialized")

    def edit(self, **arguments: Any) -> None:
        result = self._ask("tools/call", name="text_editor", arguments=arguments)
        if result.get("isError"):
            self.refused.append(result["content"][0]["text"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._send(id=1, method=method, params=params)
        assert self._program.stdout is not None
        assert select.select([self._program.stdout], [], [], WITHIN)[0], "no answer"
        return json.loads(self._program.stdout.readline())["result"]

    def _send(self, **message: Any) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._program.stdin.flush()


@contextmanager
def writing(root: Path, state: Path) -> Generator[Writer]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    with popen(
        [*COMMAND, "serve", "--root", str(root)],
        env={**kept, "XDG_STATE_HOME": str(state)},
        encoding="utf-8",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as program:
        try:
            yield Writer(program)
        finally:
            program.kill()


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_servers_that_hammer_one_file_are_all_served(tmp_path: Path, *, proof: bool, several: bool) -> None:
    root, servers, times = tmp_path / "root", 4, 200 if proof else 40
    root.mkdir()
    start = "".join(f"server {number} at 0;\n" for number in range(servers)) + "filling\n" * 400
    names = ("x", "y") if several else ("x",)
    for name in names:
        (root / name).write_text(start, encoding="ascii")
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(root, tmp_path / "state")) for _ in range(servers)]

        def hammer(number: int) -> None:
            for at in range(times):
                edit = {"old_str": f"server {number} at {at};", "new_str": f"server {number} at {at + 1};"}
                # Half of them name the files the other way round: nobody may wait for the other.
                order = names if number % 2 else names[::-1]
                edits = [{**edit, "path": name} for name in order]
                if several:
                    writers[number].edit(command="edit", path="x", edits=edits)
                else:
                    writers[number].edit(command="str_replace", path="./x" if number % 2 else "x", **edit)

        threads = [threading.Thread(target=hammer, args=[number]) for number in range(servers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [writer.refused for writer in writers] == [[]] * servers
    expected = "".join(f"server {number} at {times};\n" for number in range(servers)) + "filling\n" * 400
    assert {(root / name).read_text(encoding="ascii") for name in names} == {expected}

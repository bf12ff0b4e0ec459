"""What the worker costs: a turn, the pick-up of a task, 200 tasks at once: `worker.py turns|pickup|load`.

With `--json FILE` the figures are kept. `load --turns N --sandbox KIND` says how long tasks are and where
they run.

Issues of a folder are worked through by a real worker in a process of its own, with a scripted model that
is asked over the wire, in another process. `--engine temporal` does it on a real server, which is started on
the loopback for the time being. `turns` counts what is neither the model's nor the call's time and says where
it goes; with `--mini` the same commands are given to the loop of mini-swe-agent, as in `turns.py`. `load` is
the command itself, watched from outside. Look at the ratios: all of it depends on disk and processors.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AsyncExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from figures import Figure, write
from turns import command, fsync, spread, theirs
from workflows import server as temporal_server

PLAN = '{"goal": "g", "steps": ["s"], "title": "Count", "check": ""}'
KEPT = []
"""The figures found so far."""


def spread_of(table, of, name, seconds):
    """Return median and p95 of times as figures."""
    ordered = sorted(seconds)
    late = ordered[max(int(len(ordered) * 0.95) - 1, 0)]
    for what, value in (("median", statistics.median(ordered)), ("p95", late)):
        yield Figure(table, of, f"{name}, {what}", value * 1000, "ms")


SPLIT = ("activities", "keep", "forge", "engine")
"""Where a turn's time goes: our own deeds, waiting for the work in progress to be kept, what is done at the
forge, and all that is between two steps: the journal, or the server of Temporal."""


# The model: a process of its own. What it says follows from what it is shown.


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    think = 0.0

    def do_POST(self):
        from kakite.models.scripted_model import ReachedTurn, ScriptedTurn
        from kakite_testing.fake_providers import openai_format

        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = sum(message["role"] == "assistant" for message in body["messages"])
        asked = next(str(message["content"]) for message in body["messages"] if message["role"] == "user")
        most = int(re.search(r"Count to (\d+)", asked)[1])
        said = {"say": PLAN} if number == 0 else {"say": "Done."}
        if 0 < number <= most:
            said = {"calls": [{"tool": "run_command", "arguments": {"command": command(number)}}]}
        turn = ScriptedTurn.model_validate(said, strict=False)
        time.sleep(self.think)
        data = json.dumps(
            openai_format.build_completion(ReachedTurn(number=number + 1, turn=turn), "scripted")
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def model(think):
    Model.think = think
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    serving.daemon_threads = True
    print(f"http://127.0.0.1:{serving.server_address[1]}/v1", flush=True)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    sys.stdin.read()


@contextmanager
def child(*arguments, env=None):
    """A process of this file's, until its standard input closes."""
    alone = [sys.executable, __file__, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(alone, env=env, **pipes) as started:
        try:
            yield started
        finally:
            started.stdin.close()
            started.wait(60)


# The worker, watched from inside: the composition of `kakite agent worker`, with clocks at its joints.


class Clocks:
    def __init__(self):
        self.rows = []
        self.processor = []
        self._calls = {}

    def row(self, what, task, began, ended=None):
        self.rows.append((what, task, began, ended or time.monotonic()))

    def watch_activity(self, kind, activity):
        async def timed(value):
            task, began = value["start"]["id"], time.monotonic()
            if kind == "open":
                print(json.dumps(["open", task, began]), flush=True)
            try:
                return await activity(value)
            finally:
                self.row(f"step:{kind}", task, began)

        return timed

    def model(self, task, opened):
        reply = opened.reply

        async def timed(*given, **more):
            began = time.monotonic()
            try:
                return await reply(*given, **more)
            finally:
                self.row("model", task.id, began)
                self.processor.append(time.process_time())

        opened.reply = timed
        return opened

    def listen(self, task, event):
        from kakite.agent.observe.events import ToolCallEvent, ToolResultEvent

        if isinstance(event, ToolCallEvent):
            self._calls[task] = time.monotonic()
        elif isinstance(event, ToolResultEvent):
            self.row("tool", task, self._calls.pop(task))

    def watch(self, owner, name, what):
        """Time a method of a class."""
        method = getattr(owner, name)

        async def timed(one, *given, **more):
            began = time.monotonic()
            try:
                return await method(one, *given, **more)
            finally:
                self.row(what, "", began)

        setattr(owner, name, timed)


async def worked(told):
    """Work until nothing is left, or standard input closes; then write what the clocks say."""
    from dataclasses import replace

    from kakite.agent.forges.labels import LabelConfig
    from kakite.agent.git.mirror import Mirror
    from kakite.agent.git.remote_checkpoints import AutoCheckpoint
    from kakite.agent.git.worktree import Worktree
    from kakite.agent.issues.activities import ForgeActivities
    from kakite.agent.worker.activities import open_activities
    from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
    from kakite.cli.agent import worker as cli
    from kakite.cli.agent.worker import WorkerView
    from kakite.cli.settings import load_settings
    from kakite.durable.blobs import BlobStore
    from kakite.redaction import Redaction

    clocks = Clocks()
    clocks.watch(AutoCheckpoint, "wait_snapshotted", "keep")
    clocks.watch(AutoCheckpoint, "wait_uploaded", "keep")
    for owner, name in ((Worktree, "snapshot"), (Worktree, "send_commit"), (Mirror, "push_checkpoint_refs")):
        clocks.watch(owner, name, f"keep:{name}")
    settings = load_settings(
        {"model": "openai:scripted", "base_url": told["url"], "sandbox": "local", "approve": "all"}
        | {"setup": "off", "max_turns": 500, "context_tokens": 400_000}
    )
    folder, place = cli.ensure_agent_folder(), {"kind": "local", "path": told["forge"], "url": ""}
    forge_activities = ForgeActivities(
        lambda where: cli.open_forge(where, os.environ),
        LabelConfig(),
        BlobStore(folder / "blobs"),
        Redaction(),
    )
    deps = cli._build_worker_deps(settings, forge_activities, WorkerView())
    hear = deps.listener

    def listen(task, event):
        hear(task, event)
        clocks.listen(task, event)

    opened = lambda task: clocks.model(task, cli.open_task_model(task))  # noqa: E731
    deps = replace(deps, open_model=opened, listener=listen)
    forge = cli.open_forge(place, os.environ)
    values = cli.build_task_settings(settings)
    repository = RepositoryConfig(
        forge=forge, place=place, names=LabelConfig(), settings=values, on_ask="deny"
    )
    async with AsyncExitStack() as stack:
        activities = await stack.enter_async_context(open_activities(folder, deps))
        every = {
            kind: clocks.watch_activity(kind, activity)
            for kind, activity in activities.get_activities().items()
        }
        activities.get_activities = lambda: every
        engine = {"engine": told["engine"], "address": told["address"], "concurrency": 8}
        client = await stack.enter_async_context(cli.open_worker(activities, folder, **engine))
        if told["idle"]:
            loop = WorkerLoop(
                client=client, forge_activities=forge_activities, post=repository, say=lambda _: None
            )
            await loop.run(poll=1.0, until_idle=True)
        else:
            print(json.dumps(["ready", values]), flush=True)
            await asyncio.to_thread(sys.stdin.read)
    told = {
        "rows": clocks.rows,
        "processor": clocks.processor,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }
    print(json.dumps(["clocks", told]), flush=True)


# What is worked on


def forge_of(place, texts):
    """Return a forge whose repository has one commit, and an issue for each text."""
    folder, work, person = place / "forge", place / "first", ["-c", "user.name=B", "-c", "user.email=b@l"]
    (folder / "issues").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    (work / "a").write_text("0\n", encoding="utf-8")
    subprocess.run(["git", "-C", str(work), "add", "a"], check=True)
    subprocess.run(["git", "-C", str(work), *person, "commit", "-qm", "First"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(folder / "repo.git")], check=True)
    for number, text in enumerate(texts, 1):
        issue = f"---\ntitle: {text}\nlabels: [kakite]\nauthor: b\n---\n\n{text}\n"
        (folder / "issues" / f"{number:03}-count.md").write_text(issue, encoding="utf-8")
    return folder


def environment(place):
    for name in ("home", "tmp"):
        (place / name).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    mine = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "OPENAI_API_KEY": "x"}
    return {**kept, **mine, "GIT_CONFIG_NOSYSTEM": "1", "KAKITE_TELEMETRY": ""}


@contextmanager
def scene(chosen):
    """Yield a folder and what a worker is told: with a model that answers, and a server if one is needed."""
    with tempfile.TemporaryDirectory() as name, _server(chosen.engine) as address:
        place = Path(name)
        with child("model", str(chosen.think)) as served:
            url = served.stdout.readline().strip()
            yield place, {"url": url, "engine": chosen.engine, "address": address, "idle": True}


SERVER = []
"""The process of the server of Temporal, once there is one."""


def of_server():
    """Return the processor time that the server has used, in seconds, and its memory in MB."""
    if not SERVER:
        return 0.0, 0.0
    fields = Path(f"/proc/{SERVER[-1]}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used, int(fields[21]) * os.sysconf("SC_PAGESIZE") / 1e6


@contextmanager
def _server(engine):
    if engine != "temporal":
        yield ""
        return
    loop = asyncio.new_event_loop()
    held = temporal_server(SERVER.append)
    try:
        address = loop.run_until_complete(held.__aenter__())
        loop.run_until_complete(_answers(address))
        yield address
    finally:
        loop.run_until_complete(held.__aexit__(None, None, None))
        loop.close()


async def _answers(address):
    from kakite.durable.client import BackendUnavailableError
    from kakite.durable.temporal import open_temporal_client

    for _ in range(300):
        with suppress(BackendUnavailableError):
            async with open_temporal_client(address) as client:
                await client.list_workflows()
                return
        await asyncio.sleep(0.1)


# Turns


def overlap(row, began, ended):
    return max(min(row[3], ended) - max(row[2], began), 0.0)


def split(rows):
    """Return the seconds of each turn that called a tool, by where they went."""
    asked = sorted((row for row in rows if row[0] == "model"), key=lambda row: row[2])
    found = []
    for before, after in itertools.pairwise(asked):
        began, ended = before[3], after[2]
        spent = dict.fromkeys(("tool", "keep", "advance", "forge"), 0.0)
        for row in rows:
            name = {"tool": "tool", "keep": "keep", "step:advance": "advance"}.get(row[0])
            name = name or ("forge" if row[0].startswith("step:") else None)
            if name:
                spent[name] += overlap(row, began, ended)
        if spent["tool"]:
            whole = ended - began
            turn = {"keep": spent["keep"], "forge": spent["forge"], "tool": spent["tool"], "whole": whole}
            turn["activities"] = spent["advance"] - spent["tool"] - spent["keep"]
            turn["engine"] = whole - spent["advance"] - spent["forge"]
            turn["own"] = whole - spent["tool"]
            found.append(turn)
    return found


def stored(home):
    """Tell how much a task has left on the disk: what was said, the journal with its log, the log."""
    folder = home / ".local" / "state" / "kakite" / "agent"
    kinds = {"runs": "blobs/*/*", "journal": "journal.sqlite*", "mail": "mail.sqlite*", "log": "logs/*"}
    sizes = {kind: sum(file.stat().st_size for file in folder.glob(each)) for kind, each in kinds.items()}
    return ", ".join(f"{kind} {size / 1000:.0f} kB" for kind, size in sizes.items())


def turns(chosen):
    for count in chosen.counts or [60, 120]:
        with scene(chosen) as (place, told):
            forge = forge_of(place, [f"Count to {count}"])
            print(f"{count} turns; fsync {fsync():.1f} ms; load {os.getloadavg()[0]:.1f}")
            told["forge"] = str(forge)
            with child("work", json.dumps(told), env=environment(place)) as working:
                lines = [json.loads(line) for line in working.stdout if line.startswith("[")]
            clocks, kept = lines[-1][1], stored(place / "home")
            done = (forge / "issues" / "001-count.md").read_text(encoding="utf-8")
            if "kakite:done" not in done:
                raise SystemExit(f"the task did not end well:\n{done}")
        found = split(clocks["rows"])
        mine = report("kakite", found, clocks["peak"])
        own = [turn["own"] for turn in found]
        KEPT.extend(spread_of(f"{count} turns", "a turn of the worker", "own", own))
        for what in SPLIT:
            print(f"         {what:7} {spread([turn[what] for turn in found])}")
        for what in ("keep", "keep:snapshot", "keep:send_commit", "keep:push_checkpoint_refs"):
            taken = [row[3] - row[2] for row in clocks["rows"] if row[0] == what]
            print(f"         {what:26} {spread(taken)} ({len(taken)} times, beside the model)")
        spent = [after - before for before, after in itertools.pairwise(clocks["processor"])]
        KEPT.extend(spread_of(f"{count} turns", "a turn of the worker", "processor", spent))
        print(f"         processor time of the worker, all of it: {spread(spent)} a turn")
        print(f"         model   {spread([row[3] - row[2] for row in clocks['rows'] if row[0] == 'model'])}")
        print(f"         stored  {kept}")
        if chosen.mini:
            told = theirs(chosen.mini, count)
            pairs = zip(told["own"], told["whole"], strict=True)
            other = [{"own": own, "whole": whole} for own, whole in pairs]
            print(f"  ratio  {mine / report('mini', other):.2f}")


def report(name, found, peak=None):
    own = [turn["own"] for turn in found]
    late = own[55:65] if len(own) > 64 else own[-10:]
    memory = f"; peak {peak:.0f} MB" if peak else ""
    print(
        f"  {name:6} own {spread(own)}; around turn {min(60, len(own))}: {spread(late)}; "
        f"the last ten: {spread(own[-10:])}; whole turn {spread([turn['whole'] for turn in found])}{memory}"
    )
    return statistics.median(own)


# Pick-up


BUSY = 3
"""Tasks that the worker has in hand while others are submitted."""


def pickup(chosen):
    for count in chosen.counts or [120]:
        with scene(chosen) as (place, told):
            texts = ["Count to 200"] * BUSY + ["Nobody wants this any more"] * count
            told |= {"forge": str(forge_of(place, texts)), "idle": False}
            env = environment(place)
            with child("work", json.dumps(told), env=env) as working:
                settings = json.loads(working.stdout.readline())[1]
                busy = f"fsync {fsync():.1f} ms; load {os.getloadavg()[0]:.1f}"
                print(f"{count} tasks beside {BUSY} in hand; {busy}")
                waits = asyncio.run(_submit(told, env, settings, working))
                working.kill()
        KEPT.extend(spread_of("pick-up", f"a task beside {BUSY} in hand", "waits", waits))
        print(f"  submitted to the first step begun: {spread(waits)}, at most {max(waits) * 1000:.0f} ms")


def _take_back(forge, numbers):
    """Remove the label, so that the tasks end with their first step."""
    for number in numbers:
        issue = forge / "issues" / f"{number:03}-count.md"
        issue.write_text(issue.read_text(encoding="utf-8").replace("[kakite]", "[]"), encoding="utf-8")


async def _submit(told, env, settings, working):
    """Submit issues as a worker finds them, and return how long each waited for its first step."""
    os.environ["HOME"] = env["HOME"]
    from kakite.agent.forges.labels import LabelConfig
    from kakite.agent.forges.local.forge import LocalForge
    from kakite.agent.issues.triage import encode_trigger, find_pending_tasks
    from kakite.agent.worker.workflow import TASK_WORKFLOW
    from kakite.cli.agent.worker import open_workflow_client
    from kakite.durable.client import wait_until_ended

    forge = LocalForge(Path(told["forge"]))
    found = sorted(await find_pending_tasks(forge, LabelConfig(), {}), key=lambda each: each[1].number)
    _take_back(Path(told["forge"]), [trigger.number for _, trigger in found[BUSY:]])
    waits = []
    async with open_workflow_client(told["engine"], told["address"]) as client:
        for number, (task, trigger) in enumerate(found):
            await asyncio.sleep(0.013 * (number % 8))  # not in step with the worker's looks
            start = {"id": task, "forge": {"kind": "local", "path": told["forge"], "url": ""}}
            start |= {"trigger": encode_trigger(trigger), "settings": settings, "on_ask": "deny"}
            began = time.monotonic()
            await client.submit(task, TASK_WORKFLOW.label, start)
            _, name, at = json.loads(await asyncio.to_thread(working.stdout.readline))
            if name != task:
                raise SystemExit(f"{name} began instead of {task}")
            waits.append(at - began)
            if number >= BUSY:
                await wait_until_ended(client, task, 120)
    forge.close()
    return waits[BUSY:]


# Load


def tree(root):
    """Return the processes below one, it among them, with their memory in MB."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGESIZE") / 1e6
    below, found = {root}, {}
    while below:
        found |= {pid: parents[pid][1] for pid in below if pid in parents}
        below = {pid for pid, (above, _) in parents.items() if above in below} - found.keys()
    return found


def standing(forge):
    """Return how many issues are done."""
    return sum(b"labels: [kakite:done]" in file.read_bytes() for file in (forge / "issues").glob("*.md"))


def load(chosen):
    count = (chosen.counts or [200])[0]
    with scene(chosen) as (place, told):
        least = chosen.turns
        forge = forge_of(place, [f"Count to {least + number % 3}" for number in range(count)])
        env = environment(place)
        engine = ["--engine", "temporal", "--address", told["address"]] if told["address"] else []
        words = [
            *(sys.executable, "-m", "kakite", "agent", "worker", "--forge", "local", str(forge), *engine),
            *(
                "--model",
                "openai:scripted",
                "--base-url",
                told["url"],
                "--sandbox",
                chosen.sandbox,
                "--setup",
                "off",
            ),
            *("--approve", "all", "--until-idle", "--concurrency", str(chosen.concurrency)),
        ]
        busy = f"fsync {fsync():.1f} ms; load {os.getloadavg()[0]:.1f}"
        print(f"{count} tasks, {chosen.concurrency} at once; {busy}")
        began, used, served = time.monotonic(), processor(), of_server()[0]
        with (place / "said").open("w", encoding="utf-8") as said:
            worker = subprocess.Popen(words, env=env, cwd=place, stderr=said, stdin=subprocess.DEVNULL)
        shown = set(range(20, count + 1, 20))
        try:
            peak = _follow(worker, forge, began, shown)
        finally:
            if worker.poll() is None:
                worker.terminate()
            worker.wait(60)
        seconds, used = time.monotonic() - began, processor() - used
        served, size = of_server()[0] - served, of_server()[1]
        stored = _leftovers(place, forge, count, worker.returncode, seconds)
        of = f"{count} tasks of {least + 1} turns, {chosen.concurrency} at once, {chosen.sandbox}"
        KEPT.append(Figure("load", of, "tasks done", standing(forge)))
        KEPT.append(Figure("load", of, "turns of a task", least + 1))
        KEPT.append(Figure("load", of, "at once", min(chosen.concurrency, count)))
        KEPT.append(Figure("load", of, "together", seconds, "s"))
        KEPT.append(Figure("load", of, "processor a task", used / count, "s"))
        if SERVER:
            KEPT.append(Figure("load", of, "of Temporal's server", served / count, "s"))
            KEPT.append(Figure("load", of, "Temporal's server", size, "MB"))
        KEPT.append(Figure("load", of, "worker", peak[0], "MB"))
        KEPT.append(Figure("load", of, "programs of the tasks", peak[1], "MB"))
        KEPT.append(Figure("load", of, "stored a task", stored / count / 1e3, "kB"))


def processor():
    """Return the processor time of all programs that have ended below this one, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _follow(worker, forge, began, shown):
    """Print how worker and children grow, as tasks end; return the most memory of both, in MB."""
    most = (0.0, 0.0)
    while worker.poll() is None and time.monotonic() - began < 3600:
        time.sleep(0.25)
        sizes = tree(worker.pid)
        own = sizes.pop(worker.pid, 0.0)
        most = max(most[0], own), max(most[1], sum(sizes.values()))
        done = standing(forge)
        reached = {number for number in shown if number <= done}
        if not reached:
            continue
        shown -= reached
        with suppress(OSError):
            files = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
            threads = len(list(Path(f"/proc/{worker.pid}/task").iterdir()))
            print(
                f"  {done:4} done after {time.monotonic() - began:5.1f} s: worker {own:.0f} MB, "
                f"{files} files, {threads} threads; {len(sizes)} children {sum(sizes.values()):.0f} MB",
                flush=True,
            )
    return most


def _leftovers(place, forge, count, code, seconds):
    """Print what is there at the end: branches, pages, and what should not be."""
    listed = subprocess.run(
        ["git", "-C", str(forge / "repo.git"), "for-each-ref", "--format=%(refname)"],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout.split()
    branches = [name for name in listed if name.startswith("refs/heads/kakite/")]
    aside = [name for name in listed if name.startswith("refs/kakite/")]
    pages = [file.read_text(encoding="utf-8") for file in (forge / "pulls").glob("*.md")]
    ready = sum("draft: false" in page and "state: open" in page for page in pages)
    tasks = list((place / "home").glob(".local/state/kakite/agent/tasks/*"))
    left = sorted({found.name for task in tasks for found in task.iterdir()})
    living = [entry for entry in Path("/proc").glob("[0-9]*/cwd") if _within(entry, place)]
    stored = sum(file.stat().st_size for file in (place / "home").rglob("*") if file.is_file())
    print(
        f"  exit {code} after {seconds:.1f} s: {standing(forge)} of {count} done, {len(branches)} branches, "
        f"{ready} pages; {len(aside)} references aside, {len(living)} processes, "
        f"{len(list((place / 'tmp').iterdir()))} temporary files; {len(tasks)} folders of tasks hold "
        f"{', '.join(left) or 'nothing'}; {stored / 1e6:.1f} MB stored"
    )
    if standing(forge) != count:
        print((place / "said").read_text(encoding="utf-8")[-4000:])
    return stored


def _within(entry, place):
    with suppress(OSError):
        return entry.readlink().is_relative_to(place)
    return False


def main():
    if sys.argv[1:2] == ["model"]:
        return model(float(sys.argv[2]))
    if sys.argv[1:2] == ["work"]:
        return asyncio.run(worked(json.loads(sys.argv[2])))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["turns", "pickup", "load"])
    parser.add_argument("--engine", choices=["embedded", "temporal"], default="embedded")
    parser.add_argument("--mini", metavar="PYTHON", help="an interpreter that has mini-swe-agent")
    parser.add_argument("--think", type=float, default=0.3, help="seconds that the model takes for a reply")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3, help="calls of the shortest task (load)")
    parser.add_argument("--sandbox", default="local", help="where the tasks run (load)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("counts", nargs="*", type=int)
    chosen = parser.parse_intermixed_args()
    {"turns": turns, "pickup": pickup, "load": load}[chosen.what](chosen)
    if chosen.json:
        write(chosen.json, KEPT, engine=chosen.engine, model_seconds=chosen.think)
    return None


if __name__ == "__main__":
    main()

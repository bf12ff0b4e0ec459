"""Tasks of a benchmark, given to `kakite agent run`, and lines of JSON that outlive an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock

KAKITE = (sys.executable, "-m", "kakite")


class Lines:
    """A file with one JSON object a line, each known by one of its fields."""

    def __init__(self, file, key):
        self.file, self._key, self._lock = file, key, Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.read_bytes() if file.exists() else b""
        if not whole.endswith(b"\n") and whole:  # the end of a line that was being written
            whole = whole[: whole.rfind(b"\n") + 1]
            file.write_bytes(whole)
        self.found = {each[key]: each for each in map(json.loads, whole.splitlines())}

    def add(self, line):
        with self._lock:
            self.found[line[self._key]] = line
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line, ensure_ascii=True) + "\n")
                stream.flush()
                os.fsync(stream.fileno())


class Agent:
    """`kakite agent`, with a folder of its own for its runs: the person's own runs are not among them."""

    def __init__(self, folder, options):
        self._options = options
        self._environ = {**os.environ, "XDG_STATE_HOME": str(folder.resolve() / "state")}
        self._running, self._stopped = set(), False
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C

    def stop(self):
        """Interrupt what is under way: each run ends its commands and its container."""
        self._stopped = True
        for each in self._running.copy():
            each.send_signal(signal.SIGINT)

    def run(self, text, *words):
        """Return the report of a new run, with the seconds that it took; `error` where it has failed."""
        return self._report("run", *words, *self._options, "--json", "--", text)

    def ask_more(self, run, text):
        """Return the report of a run that goes on."""
        return self._report("continue", "--json", "--", run, text)

    def export(self, run, file):
        """Write the run's trajectory."""
        file.parent.mkdir(parents=True, exist_ok=True)
        done = self._call("export", run, "--atif", str(file))
        return json.loads(file.read_text("utf-8")) if done.returncode == 0 else None

    def remove(self, run):
        """Remove the run: its clone may be large."""
        self._call("rm", run, "--force")

    def _report(self, *words):
        began = time.monotonic()
        done = self._call(*words)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            report = {"error": {"code": "no_report", "message": done.stderr[-2000:]}}
        return {**report, "seconds": round(time.monotonic() - began, 1)}

    def _call(self, *words):
        running = subprocess.Popen(
            [*KAKITE, "agent", *words],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        with running:
            self._running.add(running)
            if self._stopped:
                running.send_signal(signal.SIGINT)
            out, err = running.communicate()
            self._running.discard(running)
        return subprocess.CompletedProcess(words, running.returncode, out, err)


def do_all(todo, work, jobs, name, agent):
    """Do the work for each, several at once; one that fails stops no other. Return how many failed."""
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        under_way = {pool.submit(work, each): name(each) for each in todo}
        try:
            for number, ended in enumerate(as_completed(under_way), 1):
                try:
                    told = ended.result()
                except Exception as error:  # noqa: BLE001 - it is told, and the others go on
                    failed += 1
                    told = f"failed: {type(error).__name__}: {error}"
                print(f"[{number}/{len(under_way)}] {under_way[ended]}: {told}", flush=True)
        except KeyboardInterrupt:
            agent.stop()
            pool.shutdown(cancel_futures=True)
            raise SystemExit("interrupted: begin again with the same words to go on") from None
    return failed


def use_of(report):
    """Return what a run has used."""
    used = report.get("usage") or {}
    names = ("requests", "input_tokens", "output_tokens", "cache_read_tokens", "cost_usd")
    return {name: used.get(name) for name in names} | {"seconds": report["seconds"]}


def sum_up(results):
    """Return what all have used, in one line, and what one takes on average."""
    count = len(results)
    if not count:
        return "nothing was run"
    tokens = [sum(each.get(name) or 0 for each in results) for name in ("input_tokens", "output_tokens")]
    cached = sum(each.get("cache_read_tokens") or 0 for each in results)
    costs = [each.get("cost_usd") for each in results]
    known = [cost for cost in costs if cost is not None]
    money = f"{sum(known):.2f} USD, {sum(known) / len(known):.3f} each" if known else "no price is known"
    if 0 < len(known) < count:
        money += f" (of {len(known)}: the others have no known price)"
    minutes = sum(each["seconds"] for each in results) / 60
    return (
        f"{tokens[0]:,} tokens in ({cached:,} from the cache), {tokens[1]:,} out; {money}; "
        f"{minutes:.1f} min, {minutes / count:.1f} each"
    )

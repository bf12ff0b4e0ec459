"""Predictions for SWE-bench, from a list of its instances.

    python benchmarks/agent/swebench.py INSTANCES.jsonl --out FOLDER --model PROVIDER:NAME
        [--image TEMPLATE | --clone] [--workdir /testbed] [--jobs N] [--only ID…] [-- OPTION…]

Each line of INSTANCES is an instance as the data set has it: `instance_id`, `repo`, `base_commit`,
`problem_statement`. Commands of the model run in a container of the instance's image, without a network;
with `--clone` in Kakite's own sandbox, on a clone of `repo` (a path or an address) at `base_commit`. Words
after `--` go to `kakite agent run`, such as `--budget-usd 3`.

FOLDER gets `predictions.jsonl` (for the harness of SWE-bench), `results.jsonl` (how each ended, what it used)
and `trajectories/ID.json` (ATIF). Begin again with the same words after an interruption: what is predicted
is left as it is. An instance that fails has no prediction and is tried again the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tasks import Agent, Lines, do_all, sum_up, use_of

IMAGE = "swebench/sweb.eval.x86_64.{id}:latest"
"""What SWE-bench calls its images; `id` is the instance's, as an image may be named."""
NEEDED = ("instance_id", "problem_statement")
TASK = """\
Resolve the issue below. It was written about this repository. Change the code so that it does what the issue
asks for; hidden tests will judge it. Do not change tests that exist, and add no files that the change does
not need.

<issue>
{problem_statement}
</issue>
"""


def read(file):
    """Return the instances of a file; one that is none is named."""
    instances = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    for number, each in enumerate(instances, 1):
        missing = [name for name in NEEDED if not each.get(name)]
        if missing:
            raise SystemExit(f"{file}: instance {number} has no {', '.join(missing)}")
    return instances


def image_of(instance, template):
    """Return the image of an instance: its own, or the one that the template makes of its fields."""
    own = instance.get("image_name") or instance.get("docker_image")
    name = instance["instance_id"].replace("__", "_1776_").lower()
    return own or template.format_map({**instance, "id": name})


def clone(instance, place):
    """Make a repository of the instance's files at its commit: no later commit can be found in it."""
    folder = place / "repository"
    settings = (
        "-c",
        "init.defaultBranch=main",
        "-c",
        "user.name=SWE-bench",
        "-c",
        "user.email=swe@localhost",
    )
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}

    def git(*words):
        command = ["git", *settings, "-C", str(folder), *words]
        done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise RuntimeError(f"git {words[0]}: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    folder.mkdir()
    git("init", "--quiet")
    git("fetch", "--quiet", "--depth", "1", instance["repo"], instance["base_commit"])
    commit = git("commit-tree", "FETCH_HEAD^{tree}", "-m", f"{instance['instance_id']}")
    for file in ("shallow", "FETCH_HEAD"):
        (folder / ".git" / file).unlink(missing_ok=True)
    git("reset", "--quiet", "--hard", commit)
    return folder


def predict(instance, chosen, agent, predictions, results):
    """Run one instance. A change is a prediction, however the run has ended; an error is none."""
    name = instance["instance_id"]
    with tempfile.TemporaryDirectory(prefix="kakite-swebench-") as place:
        patch = Path(place, "patch")
        if chosen.clone:
            words = ["--repo", str(clone(instance, Path(place))), "--no-push"]
        else:
            words = ["--container", image_of(instance, chosen.image), "--workdir", chosen.workdir]
        report = agent.run(TASK.format_map(instance), *words, "--patch", str(patch))
        run = report.get("id")
        if run:
            agent.export(run, chosen.out / "trajectories" / f"{name}.json")
            agent.remove(run)
        error = report.get("error")
        change = patch.read_bytes().decode("utf-8", "surrogateescape") if patch.exists() else ""
    status = error["code"] if error else report["status"]
    results.add({"instance_id": name, "status": status, "bytes": len(change), **use_of(report)})
    if error:
        raise RuntimeError(f"{error['code']}: {error['message']}")
    predictions.add(
        {"instance_id": name, "model_name_or_path": f"kakite+{chosen.model}", "model_patch": change}
    )
    return f"{status}, {len(change):,} characters of patch"


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    words, options = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("instances", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--image", default=IMAGE, help=f"default: {IMAGE}")
    where.add_argument("--clone", action="store_true", help="on a clone of `repo`, in Kakite's own sandbox")
    parser.add_argument("--workdir", default="/testbed", help="the code in the image; default: /testbed")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once; default: 1")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    chosen = parser.parse_args(words)

    instances = read(chosen.instances)
    predictions = Lines(chosen.out / "predictions.jsonl", "instance_id")
    results = Lines(chosen.out / "results.jsonl", "instance_id")
    wanted = [each for each in instances if not chosen.only or each["instance_id"] in chosen.only]
    todo = [each for each in wanted if each["instance_id"] not in predictions.found]
    agent = Agent(chosen.out, ("--model", chosen.model, "--approve", "all", *options))
    print(f"{len(wanted)} instances, {len(wanted) - len(todo)} of them predicted already", flush=True)

    def work(instance):
        return predict(instance, chosen, agent, predictions, results)

    failed = do_all(todo, work, chosen.jobs, lambda each: each["instance_id"], agent)
    ended = [results.found[each["instance_id"]] for each in wanted if each["instance_id"] in results.found]
    made = [each for each in wanted if each["instance_id"] in predictions.found]
    empty = sum(not predictions.found[each["instance_id"]]["model_patch"] for each in made)
    print(f"{len(made)} predictions, {empty} of them empty; {failed} failed, begin again for these")
    print(sum_up(ended))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The exercises of aider's polyglot benchmark, two tries each.

    python benchmarks/agent/polyglot.py EXERCISES --out FOLDER --model PROVIDER:NAME --image IMAGE
        [--languages python,go] [--only NAME…] [--jobs N] [--test-network none] [-- OPTION…]

EXERCISES is a clone of Aider-AI/polyglot-benchmark: `LANGUAGE/exercises/practice/NAME`. The model gets the
instructions, and a repository without the tests and the example solution. Then the tests run in a container
of IMAGE; what they print is given to the model once, for the second try. Words after `--` go to
`kakite agent run`. Commands of the model run in a container of IMAGE too, without a network.

FOLDER gets `results.jsonl`, one line for each exercise, and `trajectories/LANGUAGE-NAME.json` (ATIF). Begin
again with the same words after an interruption: what has a line is left as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tasks import Agent, Lines, do_all, sum_up, use_of

WITHIN = 180.0
"""Seconds for the tests of an exercise, as aider gives them."""
SHOWN = 50
"""Lines of what failed that the model is shown, as aider shows them."""
TESTS = {
    "cpp": "mkdir -p build && cd build && cmake -DEXERCISM_RUN_ALL_TESTS=1 -G 'Unix Makefiles' .. && make",
    "go": "go test ./...",
    "java": "chmod +x gradlew && ./gradlew test --no-daemon",
    "javascript": (
        "if [ -d /npm-install ]; then ln -s /npm-install/node_modules /npm-install/package-lock.json .; fi; "
        "npm run test"
    ),
    "python": "python3 -m unittest discover -p '*_test.py'",
    "rust": "cargo test -- --include-ignored",
}
"""The command that tests an exercise, by language."""
TEST_FILES = {
    "cpp": "*_test.cpp",
    "go": "**/*_test.go",
    "java": "src/test/**/*",
    "javascript": "**/*.spec.js",
    "python": "**/*_test.py",
    "rust": "tests/**/*",
}
"""Where tests are. The settings of an exercise do not name all: expected results stand beside them."""
SKIPS = {
    "java": (re.compile(r"@Disabled(\([^)]*\))?\s*\n"), "\n"),
    "javascript": (re.compile(r"\bxtest\("), "test("),
}
"""What leaves a test out until a learner comes to it, and what stands in its place."""
LEFT_OUT = (".meta", ".docs")
EDITORS = {
    *("text_editor", "edit_lines", "apply_patch", "apply_diffs", "search_and_replace"),
    *("write_files", "insert_contents", "accept_suggestion"),
}
NO_EDITS = {"view", "undo_edit"}
"""Commands of `text_editor` that write no text of the model."""
NOT_ITS_FORM = {"denied", "cancelled", "timed_out"}
"""Codes of failures that say nothing about how an edit was written."""

TASK = """\
{instructions}

Do this exercise in {files}. Keep the names of the functions, classes and files that are there: tests, which
you do not see, call them. Use the standard library alone.
"""
AGAIN = """\
The tests say:

{output}

The tests are right. Mend the code in {files}.
"""


@dataclass(frozen=True)
class Exercise:
    language: str
    folder: Path
    solution: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def id(self):
        return f"{self.language}/{self.folder.name}"

    @property
    def workdir(self):
        """Where it lies in a container. Files of C++ are named after the folder that they lie in."""
        return f"/exercise/{self.folder.name}"

    def read_instructions(self):
        names = ("introduction", "instructions", "instructions.append")
        files = [self.folder / ".docs" / f"{name}.md" for name in names]
        return "\n".join(file.read_text("utf-8").strip() for file in files if file.exists())

    def copy(self, place, *, with_tests):
        """Copy what a learner is given, without or with the tests, all of these switched on."""
        hidden = [self.folder / each for each in LEFT_OUT]
        hidden += [] if with_tests else [self.folder / each for each in self.tests]

        def ignore(folder, names):
            return {name for name in names if Path(folder, name) in hidden}

        shutil.copytree(self.folder, place, ignore=ignore, dirs_exist_ok=True)
        if with_tests and self.language in SKIPS:
            for test in self.tests:
                file, (left_out, instead) = place / test, SKIPS[self.language]
                file.write_text(left_out.sub(instead, file.read_text("utf-8")), "utf-8")


def find(root, languages):
    """Return the exercises of a clone of the benchmark."""
    found = []
    for config in sorted(root.glob("*/exercises/practice/*/.meta/config.json")):
        language = config.relative_to(root).parts[0]
        if language in languages:
            files = json.loads(config.read_text("utf-8"))["files"]
            folder = config.parents[1]
            named = {str(file.relative_to(folder)) for file in folder.glob(TEST_FILES[language])}
            tests = {each for each in {*files["test"], *named} if (folder / each).is_file()}
            found.append(Exercise(language, folder, tuple(files["solution"]), tuple(sorted(tests))))
    return found


def git(folder, *words):
    who = ("-c", "init.defaultBranch=main", "-c", "user.name=Polyglot", "-c", "user.email=polyglot@localhost")
    command = ["git", *who, "-c", "core.autocrlf=false", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"git {words[0]}: {done.stderr.strip()[-500:]}")


def make_repository(folder):
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message=The exercise")


def run_tests(exercise, patches, chosen, place):
    """Return whether the tests pass on the exercise with these changes, and what they print.

    All files but those of the solution are as the benchmark has them, whatever was changed in them.
    """
    folder = place / f"tests-{len(list(place.glob('tests-*')))}"
    exercise.copy(folder, with_tests=False)
    make_repository(folder)
    for patch in patches:
        if patch.stat().st_size:
            git(folder, "apply", "--whitespace=nowarn", str(patch))
    shutil.rmtree(folder / ".git")
    own = {name: (folder / name).read_bytes() for name in exercise.solution if (folder / name).is_file()}
    exercise.copy(folder, with_tests=True)
    for name in exercise.solution:
        (folder / name).unlink(missing_ok=True)  # it may be gone
        if name in own:
            (folder / name).write_bytes(own[name])
    return run_in_container(TESTS[exercise.language], folder, exercise.workdir, chosen)


def run_in_container(command, folder, workdir, chosen):
    """Run a command on a copy of a folder; return whether it ended with 0, and what it printed."""
    name = f"kakite-polyglot-{secrets.token_hex(6)}"
    made = ["create", "--name", name, "--network", chosen.test_network, "--workdir", workdir]
    made += ["--pids-limit", "4096", "--memory", "4g", "--entrypoint", "sh", chosen.image, "-c", command]

    def engine(*words, within=300.0):
        return subprocess.run(
            ["docker", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=within,
            check=False,
        )

    try:
        for words in (made, ["cp", f"{folder}/.", f"{name}:{workdir}"]):
            done = engine(*words)
            if done.returncode:
                raise RuntimeError(f"docker {words[0]}: {done.stdout.strip()[-500:]}")
        done = engine("start", "--attach", name, within=WITHIN)
    except subprocess.TimeoutExpired:
        return False, "The tests took too long."
    finally:
        engine("rm", "--force", "--volumes", name)
    return done.returncode == 0, done.stdout


def count_edits(trajectory):
    """Return how many edits a trajectory has, and how many of these were not well-formed.

    An edit that is no JSON, does not fit the tool's schema, or names text that is not there, is not.
    """
    made = malformed = 0
    for step in trajectory["steps"]:
        results = {each["source_call_id"]: each for each in step.get("observation", {}).get("results", [])}
        for call in step.get("tool_calls", []):
            result = results.get(call["tool_call_id"])
            if result is None or call["function_name"] not in EDITORS:
                continue
            if call["arguments"].get("command") in NO_EDITS or result["extra"]["code"] in NOT_ITS_FORM:
                continue
            made += 1
            malformed += not result["extra"]["ok"]
    return made, malformed


def attempt(exercise, chosen, agent, results):
    """Try an exercise once or twice, and keep how it went. A run that fails from outside keeps nothing."""
    files = ", ".join(f"`{name}`" for name in exercise.solution)
    told = TASK.format(instructions=exercise.read_instructions(), files=files)
    with tempfile.TemporaryDirectory(prefix="kakite-polyglot-") as name:
        place = Path(name)
        exercise.copy(place / "repository", with_tests=False)
        make_repository(place / "repository")
        given = ["--repo", str(place / "repository"), "--no-push", "--patch", str(place / "patch")]
        report = agent.run(told, *given, "--container", chosen.image, "--workdir", exercise.workdir)
        seconds = report["seconds"]
        patches, passed = [], []
        try:
            check(report)
            patches.append(take(place, 1))
            base = report["base"]
            right, output = run_tests(exercise, patches, chosen, place)
            passed.append(right)
            if not right:
                shown = "\n".join(output.replace(exercise.workdir, exercise.folder.name).splitlines()[:SHOWN])
                report = agent.ask_more(report["id"], AGAIN.format(output=shown, files=files))
                seconds += report["seconds"]
                check(report)
                # The patch of a further round is that round's alone; that of a run that had stopped is not.
                patches = [*(patches if report["base"] != base else ()), take(place, 2)]
                passed.append(run_tests(exercise, patches, chosen, place)[0])
            file = chosen.out / "trajectories" / f"{exercise.id.replace('/', '-')}.json"
            edits, malformed = count_edits(agent.export(report["id"], file))
        finally:
            if report.get("id"):
                agent.remove(report["id"])
    used = use_of(report) | {"seconds": round(seconds, 1)}
    results.add(
        {"exercise": exercise.id, "passed": passed, "edits": edits, "malformed_edits": malformed, **used}
    )
    outcome = f"passed in try {len(passed)}" if passed[-1] else "not passed"
    return f"{outcome}, {edits} edits, {malformed} not well-formed"


def check(report):
    if error := report.get("error"):
        raise RuntimeError(f"{error['code']}: {error['message']}")


def take(place, number):
    """Return the patch that a run has written, kept from being written over."""
    kept = place / f"patch-{number}"
    (place / "patch").rename(kept)
    return kept


def report_on(results):
    """Print the shares, as aider's report has them."""
    count = len(results)
    if not count:
        print("no exercise was tried")
        return
    first = sum(each["passed"][0] for each in results)
    second = sum(any(each["passed"]) for each in results)
    clean = sum(not each["malformed_edits"] for each in results)
    edits = sum(each["edits"] for each in results)
    malformed = sum(each["malformed_edits"] for each in results)
    print(f"exercises:              {count}")
    print(f"passed in try 1:        {first / count:.1%}")
    print(f"passed in try 1 or 2:   {second / count:.1%}")
    print(f"all edits well-formed:  {clean / count:.1%} of the exercises")
    if edits:
        print(f"well-formed edits:      {1 - malformed / edits:.1%} of {edits}")
    print(sum_up(results))


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    words, options = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exercises", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--image", required=True, help="has what runs the tests of these languages")
    parser.add_argument("--languages", default=",".join(TESTS), help="default: all six")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="as python/affine-cipher")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once; default: 1")
    parser.add_argument("--test-network", default="none", help="the network of the tests; default: none")
    chosen = parser.parse_args(words)

    languages = set(chosen.languages.split(","))
    if unknown := languages - TESTS.keys():
        parser.error(f"no tests are known for {', '.join(sorted(unknown))}")
    found = find(chosen.exercises, languages)
    if not found:
        parser.error(f"`{chosen.exercises}` has no exercises of these languages")
    results = Lines(chosen.out / "results.jsonl", "exercise")
    wanted = [each for each in found if not chosen.only or each.id in chosen.only]
    todo = [each for each in wanted if each.id not in results.found]
    agent = Agent(chosen.out, ("--model", chosen.model, "--approve", "all", *options))
    print(f"{len(wanted)} exercises, {len(wanted) - len(todo)} of them done already", flush=True)

    def work(exercise):
        return attempt(exercise, chosen, agent, results)

    failed = do_all(todo, work, chosen.jobs, lambda each: each.id, agent)
    if failed:
        print(f"{failed} failed: begin again for these")
    report_on([results.found[each.id] for each in wanted if each.id in results.found])
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

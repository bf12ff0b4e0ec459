"""The command lines by which Kakite works in a container of Harbor, and what is read of its trajectory.

`harbor_agent.py` gives them to Harbor. Here is no import of Harbor, so that they can be tried without it.
"""

from __future__ import annotations

from shlex import quote

HOME = "/opt/kakite-agent"
LOGS = "/logs/agent"
"""Where Harbor collects what an agent leaves."""
TRAJECTORY = "trajectory.json"
UV = "https://astral.sh/uv/install.sh"


FIND_PYTHON = """\
python=
for each in python3.13 python3.12 python3.11 python3; do
  if "$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$each
    break
  fi
done
[ -n "$python" ]
"""
"""Ends with 0 where a Python is new enough."""


def build_install_command(requirement):
    """Return what installs Kakite: into an environment of its own, with uv where no Python is new enough."""
    return f"""\
set -u
if {FIND_PYTHON}then
  set -e
  "$python" -m venv {HOME}
  {HOME}/bin/pip install --quiet --disable-pip-version-check {quote(requirement)}
else
  set -e
  curl -LsSf {UV} | env UV_INSTALL_DIR={HOME}-uv UV_NO_MODIFY_PATH=1 sh
  export UV_PYTHON_INSTALL_DIR={HOME}-python
  {HOME}-uv/uv venv --quiet --python 3.12 {HOME}
  {HOME}-uv/uv pip install --quiet --python {HOME}/bin/python {quote(requirement)}
fi
chmod -R a+rX {HOME}*
{HOME}/bin/kakite --version
"""


def name_keys(model):
    """Return the variables that may have the key of a model's provider."""
    provider = name_model(model).partition(":")[0].upper().replace("-", "_")
    return (f"{provider}_API_KEY", *(("GEMINI_API_KEY",) if provider == "GOOGLE" else ()))


def name_model(model):
    """Return Kakite's name of a model: Harbor writes `PROVIDER/NAME`."""
    return model if ":" in model.partition("/")[0] else model.replace("/", ":", 1)


def build_run_command(instruction, model):
    """Return what works on a task in the folder that the container stands in, and writes the trajectory.

    The container is the sandbox. That the agent stopped at a limit or did not know how to go on is no error:
    the task's own tests judge what is there. Events are written while they happen: they are there when Harbor
    ends a task that took too long.
    """
    words = ["chat", "-p", "--output", "jsonl", "--sandbox", "local", "--approve", "all"]
    words += ["--model", name_model(model), "--", instruction]
    return f"""\
set -u
mkdir -p {LOGS}
export PATH={HOME}/bin:$PATH
kakite {" ".join(map(quote, words))} < /dev/null > {LOGS}/kakite.jsonl 2> {LOGS}/kakite.txt
code=$?
session=$(sed -n '1s/.*"id": *"\\([^"]*\\)".*/\\1/p' {LOGS}/kakite.jsonl)
[ -z "$session" ] || kakite agent export "$session" --atif {LOGS}/{TRAJECTORY} 2>> {LOGS}/kakite.txt
if [ "$code" -gt 1 ]; then
  tail -c 2000 {LOGS}/kakite.txt >&2
  tail -n 1 {LOGS}/kakite.jsonl >&2
  exit "$code"
fi
"""


def read_usage(trajectory):
    """Return what Harbor's context has of a trajectory: tokens, those from the cache among them, and cost."""
    told = trajectory["final_metrics"]
    used = told["extra"]
    return {
        "n_input_tokens": used["input_tokens"],
        "n_output_tokens": used["output_tokens"],
        "n_cache_tokens": used["cache_read_tokens"],
        "cost_usd": told.get("total_cost_usd"),
    }

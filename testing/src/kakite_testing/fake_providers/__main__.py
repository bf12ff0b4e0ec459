"""``python -m kakite_testing.fake_providers SCRIPT.yaml``: serve a script until standard input closes.

Prints one line of JSON with the addresses when it is ready, and one with what went wrong at the end. Exits
with 1 if anything did, with 2 if the script is none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kakite.errors import KakiteError
from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers.server import run_scenario_server


def main(arguments: list[str]) -> int:
    """Serve the script that is named, and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m kakite_testing.fake_providers SCRIPT.yaml\n")
        return 2
    try:
        script = Scenario.load(Path(arguments[0]))
    except KakiteError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    with run_scenario_server(script) as server:
        _say({"openai_url": server.openai_url, "anthropic_url": server.anthropic_url})
        sys.stdin.read()
        _say({"violations": server.violations, "turns_left": server.playback.turns_left})
        return 1 if server.violations else 0


def _say(line: object) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Tab in real shells, after ``kakite --install-completion``, and the manual page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from man.generate import page

from tests.bounds import WITHIN
from tests.engines import ROOT

pytestmark = pytest.mark.slow
PAGE = ROOT / "man" / "kakite.1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home, with ``kakite`` on the path."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kakite"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kakite "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def shell(home: Path, name: str, script: str, *options: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name}: `apt install {name}`")
    done = subprocess.run(
        [program, *options, "-c", script],
        env={
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        },
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What Bash does at Tab: it calls the function that was registered for the program.
BASH = """
source ~/.bashrc
registered=$(complete -p kakite); function=${registered##*-F }; function=${function%% *}
tab() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); $function kakite;
  echo $(printf "%s\n" "${COMPREPLY[@]}" | sort); }
"""


def test_bash_completes_commands_options_and_values(home: Path) -> None:
    assert "bash completion installed" in shell(home, "bash", "kakite --install-completion; true")
    asked = (
        "tab kakite he; tab kakite d; tab kakite serve --re; tab kakite agent worker --engine e;"
        "tab kakite agent run --network ''; tab kakite collab --mcp a; tab kakite host ch"
    )
    told = shell(home, "bash", BASH + asked).splitlines()
    values = ["embedded", "off open registries", "auto"]
    assert told == ["", "debate doctor", "--read-only --require-read --resources", *values, "check"]


def test_zsh_completes_commands_options_and_values(home: Path) -> None:
    assert "zsh completion installed" in shell(home, "zsh", "kakite --install-completion; true")
    # Zsh gives its completions to the line editor alone: here to a function in the place of its own.
    script = (
        "source ~/.zshrc; _arguments() { print -r -- $*; }; _describe() { print -r -- ${(P)2}; };"
        "autoload -Uz _kakite; words=(kakite {}); CURRENT={}; _kakite; _kakite_completion"
    )
    assert "doctor" in shell(home, "zsh", script.replace("{}", "d", 1).replace("{}", "2"))
    told = shell(home, "zsh", script.replace("{}", "serve --re", 1).replace("{}", "3"))
    assert "--read-only" in told
    assert "--http" not in told


def test_fish_completes_commands_options_and_values(home: Path) -> None:
    assert "fish completion installed" in shell(home, "fish", "kakite --install-completion; true")
    lines = ("kakite d", "kakite serve --re", "kakite agent worker --engine ")
    asked = "; echo; ".join(f"complete -C '{line}'" for line in lines)
    found = [
        [line.split("\t")[0] for line in part.splitlines()]
        for part in shell(home, "fish", asked).split("\n\n")
    ]
    assert found == [
        ["debate", "doctor"],
        ["--read-only", "--require-read", "--resources"],
        ["embedded", "temporal"],
    ]


def test_the_manual_page_says_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "`make man` writes it anew"


@pytest.mark.parametrize(
    "check",
    [
        ("man", "--warnings", "--local-file", "--encoding=UTF-8"),
        ("groff", "-man", "-ww", "-z", "-Tutf8"),
        ("mandoc", "-T", "lint", "-W", "warning"),
    ],
    ids=lambda check: check[0],
)
def test_the_manual_page_is_read_without_a_warning(check: tuple[str, ...]) -> None:
    program = shutil.which(check[0])
    if program is None:
        pytest.skip(f"no {check[0]}: `apt install man-db groff mandoc`")
    done = subprocess.run(
        [program, *check[1:], str(PAGE)],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MANWIDTH": "80"},
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )
    told = done.stderr + (done.stdout if check[0] == "mandoc" else "")
    # It has no date: the same commands give the same page.
    assert [line for line in told.splitlines() if "missing date" not in line] == []
    if check[0] == "man":
        assert "kakite agent worker [OPTIONS]" in done.stdout
        assert "KAKITE_BUDGET_USD" in done.stdout

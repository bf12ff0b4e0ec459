"""Processes forked from one that has imported what they need: importing takes most of a short program's life.

What is forked is a process of its own, with its own environment, folder and output. Its imports were done
before: tests of what is loaded, or read while loading, start the real program (``tests.cli.program.argv``).
"""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import pkgutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

PROCESSES = multiprocessing.get_context("forkserver")
_STARTED_WITH = ("PYTHON", "LANG", "LC_", "COVERAGE")
"""Variables that Python reads when it starts, or that measure it."""


def _command_line() -> list[str]:
    from kakite import cli

    return [f"kakite.cli.{module.name}" for module in pkgutil.iter_modules(cli.__path__)]


PROCESSES.set_forkserver_preload(
    [
        *_command_line(),
        *(
            "kakite.serve",
            "kakite.models.pydantic_ai_model",
            "pydantic_ai.models.openai",
            "dbos",
            "temporalio.worker",
        ),
        "tests.agent.working",
    ]
)


def replace_environment(environ: Mapping[str, str]) -> None:
    """Let this process have these variables alone."""
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether the program would not differ from one that starts with these variables."""
    usual = {"LANG": "C.UTF-8"}
    return not any(
        name.startswith(_STARTED_WITH) and usual.get(name) != value for name, value in environ.items()
    ) and not any(name.startswith("COVERAGE") for name in os.environ)


def run_kakite(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, timeout: float
) -> tuple[int, str, str]:
    """Run the program to its end and return its exit code, and what it wrote to stdout and stderr."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        program = start_kakite(arguments, environ, cwd, (Path(os.devnull), out, err))
        program.join(timeout)
        if program.exitcode is None:
            program.kill()
            program.join()
            raise TimeoutError(
                f"{arguments} took over {timeout} s; stderr: {err.read_text(encoding='utf-8')}"
            )
        texts = [file.read_text(encoding="utf-8") if file.exists() else "" for file in (out, err)]
        return program.exitcode, texts[0], texts[1]


def start_kakite(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, streams: tuple[Path, Path, Path]
) -> BaseProcess:
    """Start the program with these files, or pipes with names, as its standard streams."""
    program = PROCESSES.Process(
        target=_kakite, args=(list(arguments), dict(environ), str(cwd), tuple(map(str, streams)))
    )
    program.start()
    return program


def _kakite(
    arguments: list[str], environ: Mapping[str, str], cwd: str, streams: tuple[str, str, str]
) -> None:
    """Become the program: as ``python -m kakite`` begins and ends."""
    for number, path in enumerate(streams):
        file = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", errors="surrogateescape"
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    replace_environment(environ)
    os.chdir(cwd)
    from kakite import __main__ as program

    sys.argv = [str(program.__file__), *arguments]
    try:
        program.main()
    finally:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]

"""``kakite ci``: works in a job of GitHub Actions or GitLab CI. A process of its own has the model's key."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kakite.cli.options import SETTING_FLAGS, Json
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.ci.job import CiJob
    from kakite.agent.forges.base import Forge

_LIFETIME = 24 * 3600  # s; longer than a job
_SETTINGS = "kakite.yaml"

app = typer.Typer(help="Work in a job of GitHub Actions or GitLab CI.", no_args_is_help=True)
ProxyFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file for the proxy's address and its token.")
]


@app.command("check")
def check(as_json: Json = False) -> None:
    """Check that whoever started the job may write to the repository, and tell what the job is for."""
    from kakite.agent.ci.job import check_actors, read_job
    from kakite.cli.console import print_json

    job = read_job(os.environ)
    asyncio.run(check_actors(_open_forge(job), job))
    if as_json:
        print_json(asdict(job))
        return
    work = "its issues" if job.pull_request is None else f"the review of #{job.pull_request}"
    typer.echo(f"{' and '.join(job.actors)} may write to {job.path}; the job is for {work}", err=True)


@app.command("proxy")
def proxy(
    file: ProxyFile,
    *,
    stop: Annotated[
        bool, typer.Option("--stop", metavar="", help="Stop the proxy whose address is in this file.")
    ] = False,
) -> None:
    """Start a proxy that reads the model's key from standard input, and keeps it from all other programs."""
    if stop:
        _stop_proxy(file)
        return
    from kakite.processes.supervisor import clear_dumpable
    from kakite.serve.streamable_http import BindAddress, listen

    upstream = _find_upstream()
    clear_dumpable()
    key = sys.stdin.read().strip()
    if not key:
        raise UsageError(
            "standard input has no key", hint="kakite ci proxy FILE < KEY_FILE", code="model_no_key"
        )
    listening = listen(BindAddress(host="127.0.0.1", port=0))
    token = secrets.token_urlsafe(32)
    if child := os.fork():
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        _write_private(file, json.dumps({"url": address, "token": token, "pid": child}))
        return
    _leave_job()
    from kakite.models.key_proxy import build_key_proxy
    from kakite.serve.streamable_http import serve_app

    asyncio.run(serve_app(build_key_proxy(upstream, key, token), listening))


def _find_upstream() -> str:
    from kakite.cli.agent.worker import build_model_missing_error
    from kakite.cli.settings import load_settings
    from kakite.models.key_proxy import find_upstream

    _drop_config()
    with tempfile.TemporaryDirectory() as empty, chdir(empty):  # what is checked out has no say
        settings = load_settings({})
    if not settings.model:
        raise build_model_missing_error()
    return find_upstream(settings.model, settings.base_url)


def _drop_config() -> None:
    if os.environ.pop("KAKITE_CONFIG", ""):
        typer.echo("KAKITE_CONFIG does not count in a job: it may name a file of a pull request", err=True)


def _leave_job() -> None:
    """Let the step that started this process end, and let this process end too, whatever happens."""
    os.setsid()
    signal.alarm(_LIFETIME)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def _write_private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


def _stop_proxy(file: Path) -> None:
    with suppress(FileNotFoundError):
        pid = _read_proxy(file)["pid"]
        file.unlink()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _read_proxy(file: Path) -> dict[str, Any]:
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"`{file}` is not of a proxy", hint="`kakite ci proxy FILE` writes it")
    return cast("dict[str, Any]", found)


@app.command("run")
def run(file: ProxyFile) -> None:
    """Do what the job is for: review its pull request, or work on the issues that wait."""
    from kakite.agent.ci.job import check_actors, read_job

    job = read_job(os.environ)
    forge = _open_forge(job)
    asyncio.run(check_actors(forge, job))
    proxy_file = file.resolve()
    with _enter_base(forge, job), _hide_commands(job):
        _use_proxy(proxy_file)
        if job.pull_request is not None:
            _review(job, job.pull_request)
        else:
            _work(job)


def _open_forge(job: CiJob) -> Forge:
    from kakite.cli.agent.worker import open_forge

    return open_forge({"kind": job.kind, "path": job.path, "url": job.url}, os.environ)


def _use_proxy(file: Path) -> None:
    """Let this process ask the proxy. Of the key it has nothing.

    Raises:
        UsageError: a provider's key is in the environment (``key_in_environment``), or there is no proxy.
    """
    from kakite.cli.settings import load_settings
    from kakite.models.factory import find_key_variable
    from kakite.models.providers import PROVIDERS

    for name in (name for provider in PROVIDERS.values() for name in provider.secret_variables):
        if os.environ.get(name, "").strip():
            raise UsageError(
                f"the variable {name} is set: what the repository runs must not be able to find a key",
                hint="give the key to `kakite ci proxy` alone, on its standard input",
                code="key_in_environment",
            )
    if not file.is_file():
        raise UsageError(f"there is no proxy at `{file}`", hint="start it: `kakite ci proxy FILE`")
    found = _read_proxy(file)
    if model := load_settings({}).model:
        os.environ[find_key_variable(model)] = found["token"]
    os.environ["KAKITE_BASE_URL"] = found["url"]


@contextmanager
def _enter_base(forge: Forge, job: CiJob) -> Generator[None]:
    """Work in a folder that holds the settings of the base, and nothing else of the repository."""
    from kakite.agent.ci.base_file import fetch_base_file

    _drop_config()

    async def fetch() -> bytes | None:
        return await fetch_base_file(await forge.get_repository(), job.base, _SETTINGS, os.environ)

    settings = asyncio.run(fetch())
    with tempfile.TemporaryDirectory(prefix="kakite-base-") as folder, chdir(folder):
        if settings is not None:
            Path(_SETTINGS).write_bytes(settings)
        yield


@contextmanager
def _hide_commands(job: CiJob) -> Generator[None]:
    """Let GitHub's runner take no line that is printed meanwhile for a command to itself."""
    if job.kind != "github":
        yield
        return
    end = secrets.token_hex(16)
    typer.echo(f"::stop-commands::{end}")
    try:
        yield
    finally:
        typer.echo(f"::{end}::")


def _review(job: CiJob, number: int) -> None:
    from kakite.cli.review import open_review_api, review_pull_request

    api = open_review_api((job.kind, job.path), job.url)
    review_pull_request(number, api, {}, post=True, as_json=False)


def _work(job: CiJob) -> None:
    from kakite.cli.agent.worker import worker
    from kakite.cli.settings import load_settings

    if load_settings({}).sandbox == "local":
        raise UsageError(
            "in a job, commands of the repository need a sandbox, and `local` is none",
            hint="unset KAKITE_SANDBOX, or set it to `container` or `bubblewrap`",
            code="ci_sandbox",
        )
    worker(**dict.fromkeys(SETTING_FLAGS), forge=(job.kind, job.path), forge_url=job.url, until_idle=True)

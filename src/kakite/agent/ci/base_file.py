"""Reads one file of a reference of a remote repository, without a clone and without a work tree."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from kakite.agent.forges.base import Repository
from kakite.agent.git.mirror import GitError
from kakite.agent.git.url import RepoUrl, build_git_environment
from kakite.processes import CompletedProcess, ProcessSpec, run

_TIMEOUT = 600.0  # s
_MAX_BYTES = 1 << 20


async def fetch_base_file(
    repository: Repository, reference: str, name: str, environ: Mapping[str, str]
) -> bytes | None:
    """Return the bytes of a file at the top of the repository; None: there is none, or it is a link.

    Args:
        repository: where it is, with credentials.
        reference: such as ``refs/heads/main``, or ``HEAD``.
        name: of the file.
        environ: git's.

    Raises:
        GitError: the repository cannot be reached (``fetch_failed``), or the file has more than 1 MiB.
    """
    login = repository.credentials
    address = RepoUrl(repository.address, *((login.username, login.password) if login else ()))
    environment = build_git_environment(address, environ)
    with tempfile.TemporaryDirectory(prefix="kakite-base-") as folder:

        async def ask(*words: str) -> CompletedProcess:
            spec = ProcessSpec(argv=("git", *words), env=environment, cwd=folder)
            return await run(spec, timeout=_TIMEOUT, limit=2 * _MAX_BYTES)

        await ask("init", "--bare", "--quiet")
        fetched = await ask("fetch", "--quiet", "--depth=1", "--no-tags", "--", address.url, reference)
        if fetched.exit_code != 0:
            raise GitError(
                f"`{reference}` of `{address.url}` cannot be fetched",
                hint="check that the token may read the repository",
                code="fetch_failed",
            )
        listed = await ask("ls-tree", "FETCH_HEAD", "--", name)
        if not listed.stdout.startswith(b"100"):
            return None
        found = await ask("cat-file", "blob", f"FETCH_HEAD:{name}")
        if len(found.stdout) > _MAX_BYTES or found.stdout_dropped:
            raise GitError(f"`{name}` of `{reference}` has more than {_MAX_BYTES >> 20} MiB")
        return found.stdout

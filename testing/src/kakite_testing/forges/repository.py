"""A real bare repository, behind git's own smart HTTP server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kakite_testing.forges.store import FakeForgeError

_TIMEOUT: Final = 60.0
_PERSON: Final = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.invalid",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitReply:
    """The response of ``git http-backend``."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BareRepository:
    """A bare repository in a folder, with one commit on its default branch."""

    def __init__(self, folder: Path, *, branch: str = "main") -> None:
        self.folder = folder
        self.default_branch = branch

    def create(self, files: Mapping[str, str]) -> str:
        """Make it, with these files, and return the first commit."""
        self.git("init", "--quiet", "--bare", "-b", self.default_branch, str(self.folder), inside=False)
        self.git("config", "http.receivepack", "true")
        return self.commit(files, "Begin")

    def commit(self, files: Mapping[str, str], message: str, *, branch: str | None = None) -> str:
        """Add or change files on a branch, as somebody who pushes would, and return the commit."""
        branch = branch or self.default_branch
        parent = self.get_head(branch) or self.get_head(self.default_branch)
        index = {"GIT_INDEX_FILE": str(self.folder / "index.of-a-test")}
        self.git("read-tree", *([parent] if parent else ["--empty"]), environment=index)
        for path, text in files.items():
            blob = self.git("hash-object", "-w", "--stdin", told=text.encode())
            self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", environment=index)
        tree = self.git("write-tree", environment=index)
        commit = self.git("commit-tree", tree, "-m", message, *(["-p", parent] if parent else []))
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def get_head(self, branch: str) -> str | None:
        """Return the last commit of a branch, None if there is no such branch."""
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None

    def count_ahead(self, head: str, base: str) -> int:
        """Return how many commits one branch has that the other has not."""
        return int(self.git("rev-list", "--count", f"refs/heads/{base}..refs/heads/{head}"))

    def git(
        self,
        *arguments: str,
        told: bytes = b"",
        environment: Mapping[str, str] | None = None,
        inside: bool = True,
    ) -> str:
        """Run git on the repository and return what it said."""
        place = ["--git-dir", str(self.folder)] if inside else []
        done = subprocess.run(
            ["git", *place, *arguments],
            input=told,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT,
            env={"PATH": os.environ["PATH"], **_PERSON, **(environment or {})},
        )
        if done.returncode != 0:
            raise FakeForgeError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode().strip()


async def answer_git(
    root: Path, *, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: str
) -> GitReply:
    """Let ``git http-backend`` answer a request for a repository below ``root``."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "HTTP_GIT_PROTOCOL": headers.get("git-protocol", ""),
        "REMOTE_USER": user,
        "REMOTE_ADDR": "127.0.0.1",
    }
    program = await asyncio.create_subprocess_exec(
        "git",
        "http-backend",
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        said, _ = await asyncio.wait_for(program.communicate(body), _TIMEOUT)
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    head, _, content = said.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    status = int(fields.pop("Status", "200").split()[0])
    return GitReply(status=status, headers=fields, body=content)

"""Opens a forge from its address, with a token from the environment. Sends no request."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kakite.errors import UsageError
from kakite.installation import get_extra_install_command

if TYPE_CHECKING:
    from kakite.agent.forges.github import GitHubApi
    from kakite.agent.forges.github_session import GitHubApp
    from kakite.agent.forges.gitlab import GitLabApi
    from kakite.agent.forges.rest import RestForge

GITHUB_TOKEN: Final = "KAKITE_GITHUB_TOKEN"  # noqa: S105 - a name
GITHUB_APP: Final = "KAKITE_GITHUB_APP_ID"
GITHUB_APP_KEY: Final = "KAKITE_GITHUB_APP_KEY_FILE"
GITLAB_TOKEN: Final = "KAKITE_GITLAB_TOKEN"  # noqa: S105 - a name
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_PART: Final = r"[A-Za-z0-9_][\w.-]*"


def open_github(path: str, environ: Mapping[str, str], *, api_url: str = "") -> RestForge:
    """Return a repository on GitHub.

    Args and errors: as ``open_github_api``.
    """
    from kakite.agent.forges.rest import RestForge

    return RestForge(open_github_api(path, environ, api_url=api_url))


def open_github_api(path: str, environ: Mapping[str, str], *, api_url: str = "") -> GitHubApi:
    """Return the API of a repository on GitHub.

    Args:
        path: ``owner/name``.
        environ: holds ``KAKITE_GITHUB_APP_ID`` and ``KAKITE_GITHUB_APP_KEY_FILE``, or
            ``KAKITE_GITHUB_TOKEN``.
        api_url: the API of an Enterprise Server, ``https://HOST/api/v3``.

    Raises:
        UsageError: ``bad_repository``, ``bad_address``, ``missing_token`` or ``missing_extra``.
    """
    _require_library("github")
    _require_path(path, rf"{_PART}/{_PART}", "owner/name")
    from kakite.agent.forges.github import API_URL, GitHubApi
    from kakite.agent.forges.github_session import GitHubToken

    access = _read_app(environ) or GitHubToken(_read_token(environ, GITHUB_TOKEN))
    return GitHubApi(path, access, api_url=_check_address(api_url or API_URL))


def open_gitlab(path: str, environ: Mapping[str, str], *, url: str = "") -> RestForge:
    """Return a project on GitLab.

    Args and errors: as ``open_gitlab_api``.
    """
    from kakite.agent.forges.rest import RestForge

    return RestForge(open_gitlab_api(path, environ, url=url))


def open_gitlab_api(path: str, environ: Mapping[str, str], *, url: str = "") -> GitLabApi:
    """Return the API of a project on GitLab.

    Args:
        path: ``group/name``, with all groups between.
        environ: holds ``KAKITE_GITLAB_TOKEN``.
        url: the address of the server, if it is not gitlab.com.

    Raises:
        UsageError: as ``open_github_api``.
    """
    _require_library("gitlab")
    _require_path(path, rf"{_PART}(?:/{_PART})+", "group/name")
    from kakite.agent.forges.gitlab import URL, GitLabApi

    return GitLabApi(path, _read_token(environ, GITLAB_TOKEN), url=_check_address(url or URL))


def _read_app(environ: Mapping[str, str]) -> GitHubApp | None:
    from kakite.agent.forges.github_session import GitHubApp

    name, key = (environ.get(each, "").strip() for each in (GITHUB_APP, GITHUB_APP_KEY))
    if bool(name) != bool(key):
        raise UsageError(
            f"the variable {GITHUB_APP_KEY if name else GITHUB_APP} is missing",
            hint=f"an App has an id ({GITHUB_APP}) and the file of a private key ({GITHUB_APP_KEY})",
            code="missing_token",
        )
    return GitHubApp(id=name, key_file=Path(key)) if name else None


def _read_token(environ: Mapping[str, str], name: str) -> str:
    token = environ.get(name, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"the variable {name} does not contain a token",
            hint=f"make one that may read and write the repository and its issues, and set {name}",
            code="missing_token",
        )
    return token


def _require_path(path: str, pattern: str, form: str) -> None:
    if not re.fullmatch(pattern, path, re.ASCII) or path.endswith(".git"):
        raise UsageError(
            f"`{path}` is not a repository's path", hint=f"write it as {form}", code="bad_repository"
        )


def _check_address(url: str) -> str:
    parts = urlsplit(url)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not safe or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"`{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}` cannot be sent a token",
            hint="write https://HOST, without a name or password in it",
            code="bad_address",
        )
    return url.rstrip("/")


def _require_library(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise UsageError(
            "the libraries for GitHub and GitLab are not installed",
            hint=get_extra_install_command("forges"),
            code="missing_extra",
        )

"""Parses repository URLs, and builds the environment in which git reaches them.

Credentials in a URL are passed to git through its environment, so that no argument, file or remote URL
holds them. Nothing here prints a credential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from kakite.errors import UsageError

_TOKEN_VARIABLE = "KAKITE_GIT_TOKEN"  # noqa: S105 - a name
"""Variable with a password for the repository, where its address has none."""

# What git sets for programs that it starts itself: it would make our git work in the caller's repository.
_LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_DIR GIT_GRAFT_FILE "
    "GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE GIT_INTERNAL_SUPER_PREFIX GIT_NAMESPACE GIT_NO_REPLACE_OBJECTS "
    "GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_QUARANTINE_PATH GIT_REPLACE_REF_BASE GIT_SHALLOW_FILE GIT_WORK_TREE"
)

_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$KAKITE_GIT_USERNAME" "$KAKITE_GIT_PASSWORD"; }; f'
)


@dataclass(frozen=True, slots=True)
class RepoUrl:
    """The URL of a repository. Printing it shows no credentials."""

    url: str
    """A path, or an address without credentials."""
    username: str = ""
    password: str = ""

    @property
    def local_path(self) -> Path | None:
        """The repository's folder, where it is one of this machine."""
        return Path(self.url) if self.url.startswith("/") else None

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


def parse_repo_url(repository: str) -> RepoUrl:
    """Return the address of a path or URL, its credentials set apart.

    Raises:
        UsageError: a path that is no folder with a repository, text that git would take for an option, or
            an address of which it cannot be said where a password ends.
    """
    if "://" in repository:
        return _split_credentials(repository)
    if re.fullmatch(r"[\w.-]+@[\w.-]+:[^@]+", repository):  # user@host:path, which ssh understands
        return RepoUrl(repository)
    folder = Path(repository).expanduser()
    if not repository or not folder.is_dir():
        raise UsageError(
            f"`{repository.rpartition('@')[2]}` is neither a folder nor the address of a repository",
            hint="give a path, or an address such as https://host/name.git",
            code="bad_repository",
        )
    folder = folder.resolve()
    # Where git looks for a repository itself.
    if not any(map(_is_repository, (folder, folder / ".git", Path(f"{folder}.git")))):
        raise UsageError(
            f"`{folder}` is a folder without a git repository",
            hint=_build_missing_hint(folder),
            code="bad_repository",
        )
    return RepoUrl(str(folder))


def find_enclosing_repository(folder: str) -> str:
    """Return the repository that a folder without one of its own lies in; else what was given."""
    place = Path(folder).expanduser()
    if "://" in folder or not folder or not place.is_dir():
        return folder
    place = place.resolve()
    if any(map(_is_repository, (place, Path(f"{place}.git")))):
        return folder
    return next((str(each) for each in (place, *place.parents) if _is_repository(each / ".git")), folder)


def _is_repository(place: Path) -> bool:
    linked = place.name == ".git" and place.is_file()  # of a work tree or a submodule
    return linked or ((place / "HEAD").exists() and (place / "objects").exists())


def _build_missing_hint(folder: Path) -> str:
    within = next((each for each in folder.parents if _is_repository(each / ".git")), None)
    return f"it is inside the repository `{within}`" if within else "`git init` there and commit first"


def _split_credentials(url: str) -> RepoUrl:
    try:
        parts = urlsplit(url)
        _ = parts.port  # what is no number may be a password
    except ValueError:
        raise _build_url_error(
            "cannot be read"
        ) from None  # with that error's words the address would be told
    if parts.query or parts.fragment:
        raise _build_url_error("has a `?` or `#`")
    rest = url.partition("://")[2]
    if not parts.scheme or ("@" in parts.path and redact_url(rest) != rest):
        raise _build_url_error("may be read in two ways")
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "ssh":  # its user is part of the address; a password there is of no use to ssh
        user = f"{parts.username}@" if parts.username else ""
        return RepoUrl(urlunsplit(parts._replace(netloc=user + host)))
    clean = urlunsplit(parts._replace(netloc=host))
    return RepoUrl(clean, unquote(parts.username or ""), unquote(parts.password or ""))


def _build_url_error(what: str) -> UsageError:
    return UsageError(
        f"the address of the repository {what}",
        hint=f"put the password in the variable {_TOKEN_VARIABLE}, or write its `/`, `?`, `#` and `@` as "
        "%2F, %3F, %23 and %40, and so the `@` of a path",
        code="bad_repository",
    )


def redact_url(rest: str) -> str:
    """Return what stands behind ``://`` without credentials, whatever characters these hold.

    They end at the last ``@``, which belongs to a path only where nothing before could be a password.
    """
    before, _, after = rest.rpartition("@")
    return rest if re.fullmatch(r"[^:@/?#]*[/?#][^:]*", before) else after


def build_git_environment(address: RepoUrl, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which git may reach the address, without asking anything on a terminal."""
    local = set(_LOCAL_VARIABLES.split())
    environment = {
        name: value for name, value in environ.items() if name not in local and name != _TOKEN_VARIABLE
    }
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    password = address.password or environ.get(_TOKEN_VARIABLE, "")
    if not address.url.startswith(("http://", "https://")) or not (password or address.username):
        return environment
    parts = urlsplit(address.url)
    # For this server alone: it may send us to another one, which must not see them.
    origin = f"{parts.scheme}://{parts.netloc}"
    settings = [("credential.helper", ""), (f"credential.{origin}.helper", _CREDENTIAL_HELPER)]
    first = int(environment.get("GIT_CONFIG_COUNT") or 0)
    environment["GIT_CONFIG_COUNT"] = str(first + len(settings))
    for index, (key, value) in enumerate(settings, first):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    environment["KAKITE_GIT_USERNAME"] = address.username or "git"
    environment["KAKITE_GIT_PASSWORD"] = password
    return environment

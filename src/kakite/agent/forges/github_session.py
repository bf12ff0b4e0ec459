"""Sends requests to GitHub with a valid token. The only module that uses PyGithub."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kakite.agent.forges.http_client import (
    ApiRequest,
    ApiResponse,
    decode,
    guard_parsing,
    make_forge_error,
    redact_secret,
    redact_tokens,
)
from kakite.errors import UsageError

if TYPE_CHECKING:
    from github.Auth import Auth
    from github.Requester import Requester

_EARLY: Final = 300.0  # s; a token that ends sooner is renewed: a push may take its time
_VERSION: Final = "2022-11-28"


@dataclass(frozen=True, slots=True)
class GitHubToken:
    """A token of a person or bot. Printing it shows nothing."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubApp:
    """A GitHub App that is installed in the repository."""

    id: str
    """The App's id, or its client id."""
    key_file: Path
    """Its private key, as GitHub gave it (PEM)."""


class GitHubSession:
    """Asks one GitHub about one repository. Not safe for several threads at once."""

    def __init__(
        self,
        path: str,
        access: GitHubToken | GitHubApp,
        *,
        api_url: str,
        timeout: float,
        between_writes: float,
    ) -> None:
        _hide_tokens_in_logs()
        self.is_app = isinstance(access, GitHubApp)
        """Whether it asks as an App."""
        self._path = path
        self._access = access
        self._api_url = api_url
        self._timeout = timeout
        self._between_writes = between_writes
        self._token = access.value if isinstance(access, GitHubToken) else ""
        self._expires = float("inf") if self._token else 0.0
        self.is_installation = self._token.startswith("ghs_")
        """Whether the token is an installation's that others asked for, as a job of GitHub Actions has."""
        self._rights: dict[str, str] = {}
        self._requester: Requester | None = None

    def get_token(self) -> str:
        """Return a token that holds for some minutes at least.

        Raises:
            ForgeError: the App gets none.
            OSError: GitHub does not answer.
            UsageError: the App's key cannot be read.
        """
        if time.time() > self._expires - _EARLY:
            self._renew_token()
        return self._token

    def get_permissions(self) -> dict[str, str]:
        """Return what an App's installation may do, by GitHub's names. Empty for a token of a person."""
        self.get_token()
        return self._rights

    def get_slug(self) -> str:
        """Return an App's name: it writes as ``SLUG[bot]``."""
        with guard_parsing("GitHub", "the App"):
            return str(self._request_as_app("GET", "/app")["slug"])

    def send(self, question: ApiRequest) -> ApiResponse:
        """Send a request and return the answer. A token that was taken back is renewed once, if it can be."""
        answer = self._send_once(question)
        if answer.status == 401 and isinstance(self._access, GitHubApp):
            self._expires = 0.0
            answer = self._send_once(question)
        return answer

    def _send_once(self, question: ApiRequest) -> ApiResponse:
        token = self.get_token()
        if self._requester is None:
            from github.Auth import Token as TokenAuth

            self._requester = self._connect(TokenAuth(token))
        path = self._requester.graphql_url if question.path == "/graphql" else question.path
        return redact_secret(_send_request(self._requester, question, path), token)

    def _renew_token(self) -> None:
        found = self._request_as_app("GET", f"/repos/{self._path}/installation")
        with guard_parsing("GitHub", "the App's installation"):
            place = f"/app/installations/{int(found['id'])}/access_tokens"
        told = self._request_as_app("POST", place, {"repositories": [self._path.partition("/")[2]]})
        with guard_parsing("GitHub", "the App's token"):
            self._token = str(told["token"])
            self._expires = datetime.fromisoformat(told["expires_at"]).timestamp()
            self._rights = dict(told.get("permissions") or {})
        self._requester = None

    def _request_as_app(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        from github.Auth import AppAuthToken

        assert isinstance(self._access, GitHubApp)
        requester = self._connect(AppAuthToken(_create_jwt(self._access)))
        question = ApiRequest(method=method, path=path, body=body)
        return decode("GitHub", question, _send_request(requester, question, path))

    def _connect(self, auth: Auth) -> Requester:
        from github import Github

        return Github(
            auth=auth,
            base_url=self._api_url,
            timeout=max(int(self._timeout), 1),
            user_agent="kakite",
            retry=None,  # asking again is up to us
            seconds_between_requests=0,
            seconds_between_writes=self._between_writes,
            api_version=_VERSION,
        ).requester


def _send_request(requester: Requester, question: ApiRequest, path: str) -> ApiResponse:
    headers = {"Accept": "application/vnd.github+json", **question.headers}
    try:
        status, told, text = requester.requestJson(
            question.method, path, parameters=dict(question.query), headers=headers, input=question.body
        )
    except RuntimeError:  # what the library says of a redirection to another server
        raise make_forge_error(
            "forge_bad_reply", "GitHub", question, "a redirection to another server"
        ) from None
    return ApiResponse(status=status, headers=told, text=text)


def _create_jwt(app: GitHubApp) -> str:
    """Return a token that shows that one has the App's key, for the next minutes."""
    from github.Auth import AppAuth
    from jwt import PyJWTError

    try:
        return AppAuth(app.id, app.key_file.read_text(encoding="utf-8")).token
    except (OSError, ValueError, TypeError, AssertionError, PyJWTError) as error:
        raise UsageError(
            f"`{app.key_file}` is not a GitHub App's private key: {type(error).__name__}",
            hint="download a key in the App's settings and name its file",
            code="bad_app_key",
        ) from None


class _TokenFilter(logging.Filter):
    """PyGithub writes whole answers to its log at the level DEBUG, and one of them is a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact_tokens(record.getMessage()), ()
        return True


def _hide_tokens_in_logs() -> None:
    logger = logging.getLogger("github.Requester")
    if not any(isinstance(each, _TokenFilter) for each in logger.filters):
        logger.addFilter(_TokenFilter())

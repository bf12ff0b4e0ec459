"""Sends requests to GitLab. The only module that uses python-gitlab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kakite.agent.forges.http_client import ApiRequest, ApiResponse, make_forge_error, redact_secret

if TYPE_CHECKING:
    import requests
    from gitlab import Gitlab


class GitLabSession:
    """Asks one GitLab. Not safe for several threads at once."""

    def __init__(self, token: str, *, url: str, timeout: float) -> None:
        self._token = token
        self._url = url
        self._timeout = timeout
        self._client: Gitlab | None = None
        self._last: list[requests.Response] = []

    def get_token(self) -> str:
        """Return the token."""
        return self._token

    def send(self, question: ApiRequest) -> ApiResponse:
        """Send a request and return the answer."""
        from gitlab.exceptions import GitlabError, RedirectError

        if self._client is None:
            self._client = self._connect()
        self._last.clear()
        try:
            self._client.http_request(
                question.method.lower(),
                question.path,
                query_data=dict(question.query),
                post_data=dict(question.body) if question.body is not None else None,
                extra_headers=dict(question.headers),
                obey_rate_limit=False,  # asking again is up to us
                retry_transient_errors=False,
                max_retries=0,
            )
        except RedirectError:
            raise make_forge_error(
                "forge_bad_reply", "GitLab", question, "a redirection to another place"
            ) from None
        except GitlabError:
            pass  # its answer, which the library keeps only a part of, is here
        response = self._last[-1]
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = ApiResponse(status=response.status_code, headers=headers, text=response.text)
        return redact_secret(answer, self._token)

    def _connect(self) -> Gitlab:
        import requests
        from gitlab import Gitlab

        session = requests.Session()
        session.auth = _skip_auth  # without one the library looks for a password in ~/.netrc
        session.hooks["response"].append(self._save_response)
        return Gitlab(
            self._url,
            private_token=self._token,
            timeout=self._timeout,
            user_agent="kakite",
            session=session,
        )

    def _save_response(self, response: requests.Response, **_: Any) -> None:
        self._last.append(response)


def _skip_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request

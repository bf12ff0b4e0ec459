"""One request to GitLab, by python-gitlab. The one user of that library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kakite.agent.forges.answers import Answer, Question, failure, without_secret

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

    def token(self) -> str:
        """Return the token."""
        return self._token

    def send(self, question: Question) -> Answer:
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
            raise failure("forge_bad_reply", "GitLab", question, "a redirection to another place") from None
        except GitlabError:
            pass  # its answer, which the library keeps only a part of, is here
        response = self._last[-1]
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(status=response.status_code, headers=headers, text=response.text)
        return without_secret(answer, self._token)

    def _connect(self) -> Gitlab:
        import requests
        from gitlab import Gitlab

        session = requests.Session()
        session.auth = _as_it_is  # without one the library looks for a password in ~/.netrc
        session.hooks["response"].append(self._keep)
        return Gitlab(
            self._url,
            private_token=self._token,
            timeout=self._timeout,
            user_agent="kakite",
            session=session,
        )

    def _keep(self, response: requests.Response, **_: Any) -> None:
        self._last.append(response)


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request

"""Stores the tokens and the registration for each remote server in a private file. It knows no network."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from kakite import state_files
from kakite.errors import ExternalError
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)

FILE_VERSION = 1
EXPIRY_MARGIN = 30.0  # s before its end at which a token counts as ended: a request takes its time
_SIZE_LIMIT = 1 << 20  # bytes
_PAUSE = 0.05  # s between two looks at a lock


class CredentialsError(ExternalError):
    """The credentials cannot be stored, or somebody else holds them.

    Code: ``credentials_unusable``.
    """

    code = "credentials_unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthCredentials:
    """Tokens of a server, and who gave them to whom. Its text never shows a secret."""

    tokens: OAuthToken | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since the epoch; None: nobody said."""
    client: OAuthClientInformationFull | None = field(default=None, repr=False)
    """How the authorization server knows us."""
    metadata: OAuthMetadata | None = field(default=None, repr=False)
    """Of the authorization server that gave the tokens: only there they are renewed."""
    resource: str = ""
    """For what the tokens were asked for (RFC 8707)."""

    @property
    def issuer(self) -> str:
        """Return who gave the tokens; empty if not known."""
        return str(self.metadata.issuer) if self.metadata else ""

    @property
    def bearer(self) -> str:
        """Return the access token, ended or not; empty if there is none."""
        return self.tokens.access_token if self.tokens else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what nobody but the two servers shall be told."""
        tokens, client = self.tokens, self.client
        of_tokens = (tokens.access_token, tokens.refresh_token or "") if tokens else ()
        return (*of_tokens, (client.client_secret or "") if client else "")

    def is_fresh(self) -> bool:
        """Return whether there is a token that has not ended, as far as we know."""
        return self.tokens is not None and (self.expires_at is None or time.time() < self.expires_at)

    def replace_tokens(self, tokens: OAuthToken) -> OAuthCredentials:
        """Return these with new tokens. What a renewal leaves out stays as it was (RFC 6749, 6)."""
        old = self.tokens
        kept = {
            "scope": tokens.scope or (old.scope if old else None),
            "refresh_token": tokens.refresh_token or (old.refresh_token if old else None),
        }
        return replace(
            self, tokens=tokens.model_copy(update=kept), expires_at=_compute_expiry(tokens.expires_in)
        )


class TokenFile:
    """The file of one server, bound to its address: no other server's tokens are ever read from it."""

    def __init__(self, folder: Path, url: str, client_id: str = "") -> None:
        """Name the file of the server at ``url``, where we are known as ``client_id`` (empty: registered)."""
        self._url = strip_userinfo(url)
        self._bound = f"{self._url}\n{client_id}"
        digest = hashlib.sha256(self._bound.encode()).hexdigest()[:32]
        self.path = folder / f"{digest}.json"
        self._lock = self.path.with_suffix(".lock")

    def load(self) -> OAuthCredentials:
        """Return what is remembered; of a file that is damaged or another server's: nothing."""
        try:
            return _read(self.path, self._bound)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            # Only the kind of error: the text of a validation error quotes what it found, tokens too.
            log.warning("what is remembered in %s cannot be read: %s", self.path, type(error).__name__)
            return OAuthCredentials()

    def save(self, credentials: OAuthCredentials) -> None:
        """Put these in the place of the old ones, whole or not at all, readable by the user alone.

        Raises:
            CredentialsError
        """
        text = json.dumps({"bound_to": self._bound, **_to_json(credentials)}, indent=1)
        try:
            state_files.make_folder(self.path.parent)
            state_files.replace(self.path, text.encode())
        except OSError as error:
            raise self._make_unusable_error(error) from error

    def forget(self) -> bool:
        """Remove the file; return whether there was one.

        Raises:
            CredentialsError
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._make_unusable_error(error) from error
        return True

    @asynccontextmanager
    async def lock(self, wait: float) -> AsyncGenerator[None]:
        """Be the only one, of all processes, who renews these tokens; wait this many seconds for it.

        Raises:
            CredentialsError: also if somebody else held it all the time.
        """
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(state_files.lock_file_async(self._lock, wait))
            except TimeoutError as error:
                raise CredentialsError(
                    f"another process has been renewing the tokens of `{self._url}` for {wait:g} s",
                    hint="let it end, then try again",
                ) from error
            except OSError as error:
                raise self._make_unusable_error(error) from error
            yield

    def _make_unusable_error(self, error: OSError) -> CredentialsError:
        reason, hint = state_files.explain_os_error(error, self.path)
        return CredentialsError(f"`{self.path}` cannot be used: {reason}", hint=hint)


def strip_userinfo(url: str) -> str:
    """Return the address without a user's name and password: those are nobody's business."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _compute_expiry(seconds: int | None) -> float | None:
    # A token that lives for a minute only must not count as ended at once.
    return None if seconds is None else time.time() + seconds - min(EXPIRY_MARGIN, seconds / 10)


def _read(path: Path, bound: str) -> OAuthCredentials:
    data = state_files.read(path, _SIZE_LIMIT)
    if data is None:
        return OAuthCredentials()
    found: JsonObject = json.loads(data)
    if not isinstance(found, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - a file may hold anything
        raise TypeError("not an object")
    if found.get("version") != FILE_VERSION or found.get("bound_to") != bound:
        return OAuthCredentials()
    return _from_json(found)


def _to_json(credentials: OAuthCredentials) -> JsonObject:
    models = {
        "tokens": credentials.tokens,
        "client": credentials.client,
        "metadata": credentials.metadata,
    }
    written = {
        name: model.model_dump(mode="json", exclude_none=True) for name, model in models.items() if model
    }
    plain = {"version": FILE_VERSION, "expires_at": credentials.expires_at, "resource": credentials.resource}
    return {**plain, **written}


def _from_json(found: JsonObject) -> OAuthCredentials:
    tokens, client, metadata = found.get("tokens"), found.get("client"), found.get("metadata")
    expires_at = found.get("expires_at")
    return OAuthCredentials(
        tokens=OAuthToken.model_validate(tokens) if tokens else None,
        expires_at=None if expires_at is None else float(expires_at),
        client=OAuthClientInformationFull.model_validate(client) if client else None,
        metadata=OAuthMetadata.model_validate(metadata) if metadata else None,
        resource=str(found.get("resource", "")),
    )

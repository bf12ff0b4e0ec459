"""The errors of requests to a model. No error made here shows a key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kakite.models.model import ModelError
from kakite.redaction import SHORTEST_SECRET, find_pattern_spans, replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_MESSAGE_LENGTH: Final = 2000
_HIDDEN: Final = "[key]"
_BEARER: Final = re.compile(r"\b(?i:bearer)[ \t]{1,8}((?=[\w.+/=~-]*[\d_+/=~])[\w.+/=~-]{8,})")
"""A token behind its scheme. Words after it, as in "bearer authentication", are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelErrorKind:
    """One way in which a request fails."""

    code: str
    retryable: bool
    hint: str


AUTH = ModelErrorKind(
    code="model_auth",
    retryable=False,
    hint="check the key in the environment and its permissions",
)
UNKNOWN = ModelErrorKind(
    code="model_unknown",
    retryable=False,
    hint="check the model's name, or the --base-url of your own server",
)
RATE_LIMIT = ModelErrorKind(
    code="model_rate_limit",
    retryable=True,
    hint="wait and resume the run, or ask the provider for higher limits",
)
QUOTA = ModelErrorKind(
    code="model_quota", retryable=False, hint="the account has no credit left: add some, then resume the run"
)
UNAVAILABLE = ModelErrorKind(
    code="model_unavailable",
    retryable=True,
    hint="the provider has trouble: wait and resume the run",
)
UNREACHABLE = ModelErrorKind(
    code="model_unreachable", retryable=True, hint="check the network, the proxy settings and the --base-url"
)
TIMEOUT = ModelErrorKind(
    code="model_timeout", retryable=True, hint="try again, or allow the request more time"
)
REJECTED = ModelErrorKind(
    code="model_rejected", retryable=False, hint="the same request will be refused again"
)
CONTEXT_OVERFLOW = ModelErrorKind(
    code="model_context_overflow",
    retryable=False,
    hint="shorten the conversation, or take a model with a larger window",
)
BAD_REPLY = ModelErrorKind(
    code="model_bad_reply",
    retryable=True,
    hint="try again; the answer broke the provider's own format",
)
FAILED = ModelErrorKind(code="model_failed", retryable=False, hint="")

KINDS: Final = (
    AUTH,
    UNKNOWN,
    RATE_LIMIT,
    QUOTA,
    UNAVAILABLE,
    UNREACHABLE,
    TIMEOUT,
    REJECTED,
    CONTEXT_OVERFLOW,
    BAD_REPLY,
    FAILED,
)

_KINDS_BY_STATUS: Final = {
    401: AUTH,
    402: QUOTA,
    403: AUTH,
    404: UNKNOWN,
    408: TIMEOUT,
    413: CONTEXT_OVERFLOW,
    429: RATE_LIMIT,
}


def classify_status(status: int) -> ModelErrorKind:
    """Say what an HTTP status means when the body says nothing better."""
    if status in _KINDS_BY_STATUS:
        return _KINDS_BY_STATUS[status]
    if status >= 500:
        return UNAVAILABLE
    return REJECTED if status >= 400 else BAD_REPLY


# Servers of one's own say it with no code, or with one of their own: llama.cpp, LM Studio, vLLM, SGLang, TGI.
_OVERFLOW_PATTERN: Final = re.compile(
    r"exceed_context_size|context_length_exceeded"
    r"|\b(?:exceed|overflow|longer than|too (?:long|large|many))\w*\b.{0,60}\b(?:context|prompt)\b"
    r"|\bcontext\b.{0,60}\b(?:exceed|overflow|too (?:small|long)|only)"
    r"|\b(?:maximum|max)\w* (?:context|prompt) (?:length|size)\b"
    r"|\binputs?\b.{0,40}\btokens?\b.{0,60}\b(?:must (?:be|have)|longer than)\b",
    re.IGNORECASE,
)


def is_context_overflow(kind: ModelErrorKind, message: str) -> bool:
    """Return whether a refusal that has no better name says that the conversation is too long."""
    unnamed = kind in (REJECTED, UNAVAILABLE, FAILED)
    return unnamed and _OVERFLOW_PATTERN.search(message[:_MAX_MESSAGE_LENGTH]) is not None


def build_model_error(
    kind: ModelErrorKind, message: str, *, secrets: Iterable[str] = (), retry_after: float | None = None
) -> ModelError:
    """Make the error. The message is cleaned of the secrets, and cut where a provider sent a page of it."""
    text = redact_secrets(message, secrets).strip() or "the request failed without a reason given"
    if len(text) > _MAX_MESSAGE_LENGTH:
        text = text[:_MAX_MESSAGE_LENGTH] + "…"
    return ModelError(text, hint=kind.hint, code=kind.code, retryable=kind.retryable, retry_after=retry_after)


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret in the text, however it is quoted, and what looks like one that is not known.

    Longer ones go first: one may hold another. One of less than six characters is none.
    """
    written = {form for each in secrets if len(each) >= SHORTEST_SECRET for form in _list_forms(each)}
    for secret in sorted(written, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    spans = [*find_pattern_spans(text), *(found.span(1) for found in _BEARER.finditer(text))]
    return replace_spans(text, spans, lambda _: _HIDDEN)


def _list_forms(secret: str) -> tuple[str, ...]:
    """Return how a text may have a secret in it: as it is, as JSON, as Python writes it, in an address."""
    return secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe="")

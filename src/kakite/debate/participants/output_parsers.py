"""Parses a CLI's output into an Answer or a ParticipantFailure. Pure.

Two CLIs have a form of their own; ``text`` takes what any other prints as it is. An exit code of 0 is no
answer, and an error that calls itself a success is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from kakite.debate.answers import FailureCode, ParticipantFailure, Reply, read_block
from kakite.terminal_text import replace_surrogates

OutputFormat = Literal["codex", "claude", "text"]
"""``codex``: the lines of ``codex exec --json``. ``claude``: ``claude -p --output-format json``, or
``stream-json``."""

TAIL = 2_000
"""Characters of standard error that are kept."""
_PARTIAL = 100_000
"""Characters of what was said before a failure that are kept."""
_DETAIL = 300
_MAX_COUNT = 10**12
"""A number from which on it counts nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliOutput:
    """A program's output, and its exit."""

    stdout: str
    stderr: str = ""
    exit_code: int | None = 0
    """128 + n after signal n; None when we ended it."""
    seconds: float = 0.0
    ended_for: Literal["", "time", "silence"] = ""
    """Why we ended it."""
    dropped: int = 0
    """Bytes of standard output that were too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedOutput:
    """The result of parsing standard output alone."""

    text: str = ""
    """What was said, whole or in part."""
    code: FailureCode | None = None
    """What went wrong, as far as it is told there."""
    detail: str = ""
    guessed: bool = False
    """Whether that is only what the output looks like: how the program ended may tell more."""
    notes: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


def parse_output(reader: OutputFormat, printed: CliOutput) -> Reply:
    """Return the answer, or the first of these that is so: it was ended, too long, failed, killed, empty."""
    found = _PARSERS[reader](replace_surrogates(printed.stdout))
    code, detail = _classify_outcome(printed, found)
    if code is None:
        return replace(
            read_block(found.text),
            seconds=printed.seconds,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            cost_usd=found.cost_usd,
            exit_code=printed.exit_code,
            stderr_tail=_truncate_stderr(printed.stderr),
            notes=found.notes,
        )
    return replace(
        create_failure(code, detail, reader),
        partial=found.text.strip()[:_PARTIAL],
        stderr_tail=_truncate_stderr(printed.stderr),
        exit_code=printed.exit_code,
        seconds=printed.seconds,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        cost_usd=found.cost_usd,
    )


def create_failure(code: FailureCode, detail: str = "", reader: OutputFormat = "text") -> ParticipantFailure:
    """Return a failure with its message and its hint; ``detail`` is what somebody else said of it."""
    message, hint = _MESSAGES[code]
    detail = " ".join(replace_surrogates(detail).split())[:_DETAIL]
    return ParticipantFailure(
        code=code,
        message=f"{message}: {detail}" if detail else message,
        hint=hint.format(login=_LOGIN[reader], form=_FORM[reader], install=_INSTALL[reader]),
    )


def parse_progress(reader: OutputFormat, line: str) -> str:
    """Return what a line of output tells a person who waits; nothing for most."""
    event = _parse_json_line(line)
    if reader == "text" or not event:
        return ""
    kind = _as_string(event.get("type"))
    item = _as_mapping(event.get("item"))
    if kind.startswith("item."):
        done = _as_string(item.get("type")).replace("_", " ")
        return "" if done == "error" else done  # those are warnings
    if kind == "error":  # what it tries to get over by itself, such as a network that is gone
        return _as_string(event.get("message"))[:_DETAIL]
    return {"turn.started": "thinking", "assistant": "answering", "system": "started"}.get(kind, "")


def classify_error(text: str) -> FailureCode:
    """Return which failure an error message speaks of; ``exited`` if it names none that we know."""
    found: list[FailureCode] = [code for code, form in _SIGNS.items() if re.search(form, text, re.IGNORECASE)]
    return found[0] if found else "exited"


def _classify_outcome(printed: CliOutput, found: _ParsedOutput) -> tuple[FailureCode | None, str]:
    if printed.ended_for:
        last = (
            f"; its last words: {found.detail}" if found.code and not found.guessed and found.detail else ""
        )
        code = "timed_out" if printed.ended_for == "time" else "silent"
        return code, f"after {printed.seconds:.0f} s{last}"
    if printed.dropped:
        return "too_long", f"{printed.dropped} bytes too many"
    code = printed.exit_code
    if found.code and not found.guessed:
        return found.code, found.detail
    if code is not None and 128 < code <= 128 + 64:
        return "killed", f"signal {code - 128}"
    if code:
        said = printed.stderr.strip() or found.detail or found.text or printed.stdout
        return classify_error(said), _get_last_line(said) or f"exit code {code}"
    if found.code is None and not found.text.strip():
        return "empty_answer", ""
    return found.code, found.detail


def _parse_codex(stdout: str) -> _ParsedOutput:
    lines = [line for line in stdout.splitlines() if line.strip()]
    events = [event for event in map(_parse_json_line, lines) if event]
    items = [_as_mapping(event.get("item")) for event in events if event.get("type") == "item.completed"]
    said = [_as_string(item.get("text")) for item in items if item.get("type") == "agent_message"]
    notes = [_as_string(item.get("message")) for item in items if item.get("type") == "error"]
    # A tuple: what came from outside need not be hashable.
    ends = [event for event in events if event.get("type") in ("turn.completed", "turn.failed")]
    errors = [_as_string(event.get("message")) for event in events if event.get("type") == "error"]
    usage = _as_mapping(ends[-1].get("usage") if ends else None)
    found = _ParsedOutput(
        text=said[-1] if said else "",
        notes=tuple(filter(None, notes)),
        input_tokens=_read_count(usage, "input_tokens"),
        output_tokens=_read_count(usage, "output_tokens"),
    )
    if ends and ends[-1].get("type") == "turn.completed":
        return found
    if ends:
        errors.append(_as_string(_as_mapping(ends[-1].get("error")).get("message")))
    if detail := _unwrap_message(next(filter(None, reversed(errors)), "")):
        code = classify_error(detail)
        return replace(found, code="http_error" if code == "exited" else code, detail=detail)
    if ends:
        return replace(found, code="http_error", detail="the turn failed")
    if lines and not _parse_json_line(lines[-1]):
        return replace(found, code="half_json", detail=lines[-1], guessed=True)
    cut = replace(found, code="stream_cut", detail="the turn has no end", guessed=True)
    return cut if events else found


def _unwrap_message(message: str) -> str:
    """Return what a provider said, if the message is its whole answer."""
    return _as_string(_as_mapping(_parse_json_line(message).get("error")).get("message")) or message


def _parse_claude(stdout: str) -> _ParsedOutput:
    result = _find_claude_result(stdout)
    if result is None:
        looks_right = stdout.lstrip().startswith(("{", "["))
        half = _ParsedOutput(code="half_json", detail=_get_last_line(stdout), guessed=True)
        told = half if stdout.strip() else _ParsedOutput()
        return told if looks_right else replace(told, text=stdout)
    usage = _as_mapping(result.get("usage"))
    reads = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    cost = result.get("total_cost_usd")
    denied = result.get("permission_denials")
    found = _ParsedOutput(
        text=_as_string(result.get("result")),
        notes=(f"{len(cast('list[object]', denied))} calls of tools were denied",)
        if isinstance(denied, list) and denied
        else (),
        input_tokens=sum(_read_count(usage, name) for name in reads),
        output_tokens=_read_count(usage, "output_tokens"),
        cost_usd=_read_cost(cost),
    )
    # `subtype` says "success" here as well.
    return _parse_claude_error(found, result) if result.get("is_error") is not False else found


def _parse_claude_error(found: _ParsedOutput, result: Mapping[str, object]) -> _ParsedOutput:
    status = result.get("api_error_status")
    code = classify_error(f"status {status}") if isinstance(status, int) else "exited"
    if code in {"exited", "http_error"}:  # the words may tell more than the number
        told = classify_error(found.text)
        code = told if told != "exited" else code
    reason = _as_string(result.get("terminal_reason")) or _as_string(result.get("subtype"))
    sign = _SIGNS.get(code, "")
    speaking = (line for line in reversed(found.text.splitlines()) if re.search(sign, line, re.IGNORECASE))
    detail = (sign and next(speaking, "")) or _get_last_line(found.text) or reason
    return replace(
        found,
        text="" if found.text.strip() == detail else found.text,  # it said nothing but what went wrong
        code="http_error" if code == "exited" else code,
        detail=detail,
    )


def _find_claude_result(stdout: str) -> Mapping[str, object] | None:
    """Return the object with the result: the whole output, or in a list or the lines of a stream."""
    try:
        value: object = json.loads(stdout)
    except (ValueError, RecursionError):
        value = [_parse_json_line(line) for line in stdout.splitlines()]
    values = cast("Sequence[object]", value) if isinstance(value, list) else [value]
    objects = [_as_mapping(each) for each in values]
    return next((each for each in reversed(objects) if "result" in each or "is_error" in each), None)


def _parse_text(stdout: str) -> _ParsedOutput:
    return _ParsedOutput(text=stdout)


_PARSERS: dict[OutputFormat, Callable[[str], _ParsedOutput]] = {
    "codex": _parse_codex,
    "claude": _parse_claude,
    "text": _parse_text,
}

_LOGIN: dict[OutputFormat, str] = {
    "codex": "run `codex login`",
    "claude": "run `claude` and type `/login`",
    "text": "log in with the CLI itself",
}
_INSTALL: dict[OutputFormat, str] = {
    "codex": "install it (`npm install -g @openai/codex`)",
    "claude": "install it (`npm install -g @anthropic-ai/claude-code`)",
    "text": "install it",
}
_FORM: dict[OutputFormat, str] = {
    "codex": "`codex exec --json`",
    "claude": "`claude -p --output-format json`",
    "text": "text on standard output",
}

_MESSAGES: dict[FailureCode, tuple[str, str]] = {
    "not_installed": ("the program was not found", "{install}, or give its full path in the settings"),
    "not_logged_in": ("no valid login", "{login}, then go on"),
    "bad_command": (
        "its command line was refused",
        "this version takes other flags: set the participant's command in the settings",
    ),
    "needs_terminal": (
        "it needs a terminal, and there is none",
        "it must answer by {form}; set the participant's command in the settings",
    ),
    "http_error": ("its provider refused or failed", "go on to ask again, or look at its stderr"),
    "rate_limited": ("its provider allows no more now", "wait as long as it says, then go on"),
    "stream_cut": ("the answer broke off", "go on to ask again"),
    "empty_answer": ("it ended without an answer", "go on to ask again"),
    "half_json": ("its output is incomplete or not in the expected format", "it must answer by {form}"),
    "too_long": ("it printed more than can be kept", "go on to ask again, for a shorter answer"),
    "timed_out": ("it took too long, so Kakite ended it", "give it more time, or ask for less"),
    "silent": ("it printed nothing for too long, so Kakite ended it", "raise its limit for silence"),
    "killed": ("it was killed", "check that the machine has enough memory, then go on"),
    "exited": ("it failed", "look at its stderr"),
    "unreachable": ("it cannot be reached", "check that it runs, and that address and token are right"),
    "no_files": (
        "the files of the debate cannot be read",
        "put them back, or start another debate",
    ),
    "broken": ("a bug in Kakite", "please report it"),
}

_SIGNS: dict[FailureCode, str] = {
    "needs_terminal": r"not a (?:terminal|tty)|inappropriate ioctl|/dev/tty"
    r"|(?:requires?|needs) an? (?:\w+ )?terminal",
    # Before logins: a limit may come with the advice to log in otherwise.
    "rate_limited": r"\b429\b|rate.?limit|(?:usage|session|weekly|hour) limit|hit your (?:\w+ )?limit"
    r"|too many requests|quota|credit balance|at capacity",
    "not_logged_in": r"not logged in|/login\b|\b(?:log|sign) ?in again|\b40[13]\b|unauthorized|authentication"
    r"|(?:invalid|missing|incorrect) api key|missing environment variable"
    r"|token (?:has )?(?:expired|been revoked)",
    "stream_cut": r"stream (?:closed|disconnected|ended|was cut)|socket hang up|\bterminated\b|interrupted"
    r"|before (?:response\.completed|completion|message_stop)|incomplete"
    r"|connection (?:was )?(?:closed|reset|error)",
    "bad_command": r"unexpected argument|unknown (?:option|argument|command|feature flag)"
    r"|error loading config|unrecognized (?:option|argument|subcommand)"
    r"|argument '[^']*' is invalid|invalid value '"
    r"|no conversation found|no (?:session|rollout) found",
    "http_error": r"\bstatus\b|api error|\b[45]\d\d\b|connection refused|error sending request|fetch failed"
    r"|ECONNREFUSED|ENOTFOUND|overloaded|server error",
}
"""What error messages are known by, the first that fits."""


def _parse_json_line(line: str) -> Mapping[str, object]:
    try:
        return _as_mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _as_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_count(usage: Mapping[str, object], name: str) -> int:
    value = usage.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < _MAX_COUNT else 0


def _read_cost(value: object) -> float | None:
    """Return an amount of money, None for what is none: JSON of a program may hold numbers of any size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MAX_COUNT else None


def _get_last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _truncate_stderr(text: str) -> str:
    return replace_surrogates(text).strip()[-TAIL:]

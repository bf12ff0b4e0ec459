"""Serves the engine to any language: one JSON object a line in, one answer a line out."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, cast, get_args

from kakite.edit.diff_output import unified_diff
from kakite.edit.edit_batch import apply
from kakite.edit.errors.model import Candidate, EditFailure
from kakite.edit.formats.format_error import FormatError, FormatName
from kakite.edit.formats.parser import parse
from kakite.edit.source_text import SourceText
from kakite.edit.types import Edit, Match, Operation, Result
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from kakite.edit.suggestions.model import SuggestionStore

_FORMATS = get_args(FormatName)

Json = Mapping[str, object]

_KEYS = ("id", "text", "text_b64", "edits", "reply", "format", "accept")
_ASKED = ("edits", "reply", "accept")
_EDIT_KEYS = ("search", "replace", "line", "all")
_KNOWN_AS = {"replace_all": "all", "replaceAll": "all", "old_str": "search", "new_str": "replace"}


class JsonlRequestError(Exception):
    """The line is not a request."""


def answer_line(line: str) -> str:
    """Answer one line of ``kakite edit --jsonl`` by itself: no suggestion is remembered."""
    return JsonlSession().answer(line)


class JsonlSession:
    """One run of ``kakite edit --jsonl``: it answers lines, and remembers its latest suggestions."""

    def __init__(self) -> None:
        self._store: SuggestionStore | None = None

    def answer(self, line: str) -> str:
        """Answer one line. Never raises; the answer has no line end."""
        identity: object = None
        try:
            request = _parse_object(line)
            identity = request.get("id")
            _check_keys(request, _KEYS, "a request")
            answer = self._answer(request)
        except JsonlRequestError as error:
            answer = _encode_refused([_encode_bad_request(str(error))])
        return json.dumps({"id": identity, **answer}, ensure_ascii=True)

    def _answer(self, request: Json) -> dict[str, object]:
        source = _read_source(request)
        if sum(key in request for key in _ASKED) != 1:
            raise JsonlRequestError('exactly one of "edits", "reply" and "accept" must be there')
        if "accept" in request:
            return self._accept_suggestion(source, request)
        try:
            edits = _parse_operations(request)
        except FormatError as error:
            return _encode_refused([_encode_error(error)])
        result = apply(source, edits, partial=True)
        if result.failures:
            return _encode_refused([encode_failure(failure) for failure in self._refuse(source, result)])
        return _encode_applied(source, result, in_base64="text_b64" in request)

    def _refuse(self, source: SourceText, result: Result) -> Sequence[EditFailure]:
        """Return the failures of a text's edits, and remember what they suggest."""
        if not any(failure.suggestion for failure in result.failures):
            return result.failures
        from kakite.edit.suggestions.model import refuse
        from kakite.edit.types import FileChange, FilesResult  # only a suggestion needs them

        change = FileChange(path="", before=source, after=result.source, result=result)
        refused = refuse({"": source}, FilesResult(files=(change,), failures=result.failures))
        for suggestion in refused.suggestions:
            self._get_store().add(suggestion)
        return refused.failures

    def _accept_suggestion(self, source: SourceText, request: Json) -> dict[str, object]:
        from kakite.edit.suggestions.model import SuggestionGoneError, accept_batch

        wanted = request["accept"]
        if not isinstance(wanted, str):
            raise JsonlRequestError('"accept" must be the id of a suggestion, a string')
        try:
            (change,) = accept_batch(self._get_store().find(wanted), {"": source})
        except SuggestionGoneError as error:
            return _encode_refused([_encode_error(error)])
        assert change.result is not None
        return _encode_applied(source, change.result, in_base64="text_b64" in request)

    def _get_store(self) -> SuggestionStore:
        if self._store is None:
            from kakite.edit.suggestions.model import SuggestionStore

            self._store = SuggestionStore()
        return self._store


def _parse_operations(request: Json) -> Sequence[Operation]:
    if "edits" in request:
        return [_parse_edit(item) for item in _read_list(request, "edits")]
    reply, name = request["reply"], request.get("format", "auto")
    if not isinstance(reply, str):
        raise JsonlRequestError('"reply" must be a string')
    if name not in _FORMATS:
        raise JsonlRequestError(f'"format" must be one of {", ".join(_FORMATS)}')
    return parse(reply, cast("FormatName", name))


def _encode_applied(source: SourceText, result: Result, *, in_base64: bool) -> dict[str, object]:
    if in_base64:
        text: dict[str, object] = {"text_b64": base64.b64encode(result.source.to_bytes()).decode("ascii")}
    else:
        text = {"text": result.text}
    return {
        "ok": True,
        **text,
        "applied": [encode_match(match) for match in result.matches],
        "diff": unified_diff(result.changes, source.text),
    }


def _encode_refused(failures: Sequence[dict[str, object]]) -> dict[str, object]:
    return {"ok": False, "failures": list(failures)}


def encode_match(match: Match) -> dict[str, object]:
    """Return a match as the protocol writes it."""
    told = {
        "starts_inside": match.starts_inside,
        "ends_inside": match.ends_inside,
        "repeats": match.repeats,
        "left": list(match.left),
    }
    return {
        "index": match.index,
        "line": match.line,
        "lines": match.lines,
        "match": match.level,
        "forgiven": list(match.forgiven),
        **{name: value for name, value in told.items() if value},
    }


def encode_failure(failure: EditFailure) -> dict[str, object]:
    """Return a failure as the protocol writes it."""
    written: dict[str, object] = {
        "index": failure.index,
        "code": failure.code,
        "message": failure.message,
        "hint": failure.hint,
        "candidates": [_encode_candidate(candidate) for candidate in failure.candidates],
    }
    if (suggestion := failure.suggestion) is not None:
        shown = {"id": suggestion.id, "line": suggestion.line, "diff": suggestion.diff}
        return {**written, "loss" if suggestion.is_loss else "suggestion": shown}
    return written


def _encode_candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "line": candidate.line,
        "lines": candidate.lines,
        "score": candidate.score,
        "text": candidate.text,
    }


def _encode_error(error: KakiteError) -> dict[str, object]:
    return {"index": -1, "code": error.code, "message": error.message, "hint": error.hint, "candidates": []}


def _encode_bad_request(message: str) -> dict[str, object]:
    hint = 'Send one JSON object a line, with "text" or "text_b64", and "edits", "reply" or "accept"'
    return {"index": -1, "code": "bad_request", "message": message, "hint": hint, "candidates": []}


def _parse_object(line: str) -> Json:
    try:
        value: object = json.loads(line, parse_constant=_refuse_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise JsonlRequestError(f"the line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise JsonlRequestError("the line is not a JSON object")
    return cast("Json", value)


def _refuse_constant(name: str) -> object:
    raise JsonlRequestError(f"the line is not JSON: {name} is not a number there")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    return number if isfinite(number) else cast("float", _refuse_constant(digits[:20]))


def _check_keys(value: Json, known: Sequence[str], what: str) -> None:
    """Refuse a key that would be passed over: what it asks for would not be done."""
    strange = next((key for key in value if key not in known), None)
    if strange is None:
        return
    from difflib import get_close_matches  # slow to import, and only a refusal comes here

    near = [name for name in (_KNOWN_AS.get(strange),) if name in known] or get_close_matches(
        strange, known, 1
    )
    meant = f'; did you mean "{near[0]}"?' if near else f"; use one of {', '.join(known)}"
    raise JsonlRequestError(f'{what} has no "{strange[:60]}"{meant}')


def _read_source(request: Json) -> SourceText:
    text, encoded = request.get("text"), request.get("text_b64")
    if isinstance(text, str) and encoded is None:
        return SourceText(text)
    if isinstance(encoded, str) and text is None:
        try:
            return SourceText.from_bytes(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError) as error:
            raise JsonlRequestError(f'"text_b64" is not base64: {error}') from error
    raise JsonlRequestError('exactly one of "text" and "text_b64" must be there, as a string')


def _read_list(request: Json, key: str) -> list[object]:
    value = request.get(key)
    if not isinstance(value, list):
        raise JsonlRequestError(f'"{key}" must be a list')
    return cast("list[object]", value)


def _parse_edit(item: object) -> Edit:
    if not isinstance(item, dict):
        raise JsonlRequestError("an edit must be an object")
    edit = cast("Json", item)
    _check_keys(edit, _EDIT_KEYS, "an edit")
    search, replace, line, every = (edit.get(key) for key in ("search", "replace", "line", "all"))
    if not isinstance(search, str) or not isinstance(replace, str):
        raise JsonlRequestError('an edit needs "search" and "replace", both strings')
    if not (line is None or (isinstance(line, int) and not isinstance(line, bool) and line > 0)):
        raise JsonlRequestError('"line" must be a whole number, from 1')
    if not (every is None or isinstance(every, bool)):
        raise JsonlRequestError('"all" must be true or false')
    return Edit(search=search, replace=replace, line=line, all=bool(every))

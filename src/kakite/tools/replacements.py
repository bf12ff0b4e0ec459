"""Texts of files put in place of others: `str_replace`, and several at once as `edit`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kakite.edit import Edit, Failure, Match, Result, Words, apply, render_for_model
from kakite.errors import KakiteError
from kakite.tools.accepting import acceptance_words, offer_suggestions
from kakite.tools.arguments import ToolError
from kakite.tools.changed import apply_seen
from kakite.tools.edits import FileEdit, Plan
from kakite.tools.notebooks import OpenText
from kakite.tools.scope import Scope
from kakite.tools.snippets import snippet

_WORDS = Words(search="`old_str`", replace="`new_str`", takes_line=False)

_BARE = "\nnote: no `new_str` came, so the text was removed"

_FORGIVEN = {
    "line_ends": "line ends",
    "trailing_blanks": "blanks at the ends of lines",
    "look_alikes": "look-alike characters",
    "inner_blanks": "runs of blanks inside lines",
    "indentation": "indentation",
    "blank_lines": "blank lines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One text of one file, and what is put in its place."""

    path: str
    old: str
    new: str
    all: bool = False
    """Every place, instead of the one that there must be."""
    is_bare: bool = False
    """Whether no new text came, so that the old one goes."""


def plan_replacements(scope: Scope, wanted: Sequence[Replacement]) -> Plan:
    """Return what becomes of the files: all of it, each found in the text as it is now.

    Raises:
        KakiteError: what is wrong with all that cannot be done.
    """
    by_file: dict[str, list[int]] = {}
    for index, each in enumerate(wanted):
        by_file.setdefault(scope.identity(each.path), []).append(index)
    done: list[_Replaced] = []
    failures: list[Failure] = []
    errors: list[KakiteError] = []
    for indices in by_file.values():
        few = [wanted[index] for index in indices]
        try:
            replaced = _replace(scope, few)
        except KakiteError as error:
            errors.append(error)
            continue
        path = few[0].path if len(by_file) > 1 else ""
        failures += [_renumbered(failure, indices, path) for failure in replaced.result.failures]
        done.append(replaced)
    if failures or errors:
        edits = [each.edit for each in done]
        paths = {each.edit.path for each in done}
        words = acceptance_words(scope, paths.pop() if len(paths) == 1 else "", _WORDS)
        if errors:  # then no suggestion could land all of the call
            told = [replace(failure, suggestion=None) for failure in failures]
        else:
            told = offer_suggestions(scope, edits, failures)
        raise _refused(told, errors, words)
    forgiven = dict.fromkeys(kind for each in done for kind in each.forgiven)
    return Plan(
        edits=tuple(each.edit for each in done),
        told="\n\n".join(each.told() for each in done),
        forgiven=tuple(forgiven),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replaced:
    """One file, with all that is replaced in it."""

    edit: FileEdit
    result: Result
    asked: int
    """How many replacements were."""
    bare: int = 0
    """How many of them came without a new text."""

    @property
    def forgiven(self) -> tuple[str, ...]:
        """In what the quoted texts differed from the file."""
        return tuple(dict.fromkeys(kind for match in self.result.matches for kind in _forgiven(match)))

    def told(self) -> str:
        """Return what was done, and the lines around it."""
        places = len(self.result.matches)
        many = f" at {places} places" if places > self.asked else f", {places} edits" if places > 1 else ""
        forgiven = ", ".join(self.forgiven)
        how = (
            f" (`old_str` was not exact, forgiven: {forgiven}; check that the result is what you meant)"
            if forgiven
            else ""
        )
        shown = snippet(self.result.text, self.result.changes)
        remarks = _remarks(self.result.matches) + _BARE * (self.bare > 0)
        return f"Edited `{self.edit.path}`{many}{how}{remarks}\n{shown}".rstrip()


def _replace(scope: Scope, wanted: Sequence[Replacement]) -> _Replaced:
    path = wanted[0].path
    opened = OpenText(scope.read(path), path)
    source = opened.shown
    edits = [Edit(search=each.old, replace=each.new, all=each.all) for each in wanted]
    if opened.notebook is None:
        result = apply_seen(scope, path, source, edits)
    else:
        result = apply(source, edits, partial=True)
        result = replace(result, failures=tuple(_in_file(opened, each) for each in result.failures))
    edit = opened.edit(result.changes, result.source)
    bare = sum(each.is_bare for each in wanted)
    return _Replaced(edit=edit, result=result, asked=len(wanted), bare=bare)


def _in_file(opened: OpenText, failure: Failure) -> Failure:
    """Return a failure in a notebook's cells with what it suggests for the file."""
    if failure.suggestion is None:
        return failure
    try:
        changes = opened.edit(failure.suggestion.changes).changes
    except ToolError:  # it would edit what is between the cells
        return replace(failure, suggestion=None)
    return replace(failure, suggestion=replace(failure.suggestion, changes=changes))


def _refused(failures: Sequence[Failure], errors: Sequence[KakiteError], words: Words) -> KakiteError:
    """Return what is wrong with all of it as one error; it has the code of the first."""
    if not failures and len(errors) == 1:
        return errors[0]
    told = [render_for_model(sorted(failures, key=lambda each: each.index), words=words)] if failures else []
    told += [error.message for error in errors]
    code = failures[0].code if failures else errors[0].code
    return ToolError("\n".join(told), hint=errors[0].hint if errors else "", code=code)


def _renumbered(failure: Failure, indices: Sequence[int], path: str) -> Failure:
    """Return a failure of one file's edits with its number among all of them."""
    other = indices[failure.other] if failure.other >= 0 else -1
    return replace(failure, index=indices[failure.index], other=other, path=path)


def _remarks(matches: Iterable[Match]) -> str:
    """Return what is told of places where an exact edit may not be what was meant."""
    told: list[str] = []
    for match in matches:
        if match.ends_inside and match.lines > 1:
            told.append(f"`old_str` ends inside line {match.line + match.lines - 1}")
        if match.repeats:
            told.append(f"what it adds stood at line {match.line} already, and stands there twice now")
        if match.left:
            lines = ", ".join(map(str, match.left[:8]))
            told.append(f"places that are a part of a longer word were left, at lines {lines}")
    return "".join(f"\nnote: {each}" for each in dict.fromkeys(told[:8]))


def _forgiven(match: Match) -> tuple[str, ...]:
    kinds = match.forgiven or (() if match.level == "exact" else (match.level,))
    return tuple(_FORGIVEN.get(kind, kind.replace("_", " ")) for kind in kinds)

"""Suggestions: what accepting one does, and when it is gone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.edit import (
    Change,
    ChangeSet,
    DeleteFile,
    Edit,
    EditError,
    EditFailure,
    SourceText,
    apply,
    apply_to_files,
)
from kakite.edit.suggestions.model import (
    BatchSuggestion,
    FileSuggestion,
    SuggestionGoneError,
    SuggestionStore,
    accept,
    accept_batch,
    create_suggestion,
    refuse,
    refuse_rest,
)
from kakite.edit.types import FileChange, FilesResult

TEXTS = st.text(alphabet="ab\n\r😀é \ud800", max_size=40)


@st.composite
def apart(draw: st.DrawFn, source: SourceText, *, least: int = 0) -> list[Change]:
    """Draw changes that the source can hold, of which no two touch, and none is empty."""
    bounds = sorted(draw(st.sets(st.integers(0, len(source.text)), min_size=2 * least, max_size=8)))
    spans = list(zip(bounds[::2], bounds[1::2], strict=False))
    insert = TEXTS.filter(lambda text: not source.find_unencodable(text))
    return [Change(start, end, draw(insert)) for start, end in spans]


@st.composite
def sources(draw: st.DrawFn) -> SourceText:
    text = draw(st.text(alphabet="ab\n\r😀é ", min_size=4, max_size=40))
    encoding = draw(st.sampled_from(["utf-8", "utf-16-le", "bytes", "none"]))
    if encoding == "none":
        return SourceText(text)
    if encoding == "bytes":
        return SourceText.from_bytes(draw(st.binary(max_size=20)) + bytes([*b"a\r\nb", 0xFF]))
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    return SourceText.from_bytes(mark + text.encode(encoding))


def written(source: SourceText | None) -> tuple[str, bytes | None]:
    """Return the text and its bytes, where it has any."""
    assert source is not None
    return source.text, source.body


def failure(index: int, text: str, *changes: Change, path: str = "") -> EditFailure:
    suggestion = create_suggestion(text, ChangeSet.of(len(text), changes)) if changes else None
    return EditFailure(index=index, code="near_miss", message="", hint="", path=path, suggestion=suggestion)


def change_of(path: str, source: SourceText, *changes: Change) -> FileChange:
    """Return what the other edits of a batch make of a file."""
    made = ChangeSet.of(len(source.text), changes)
    result = replace(apply(source, []), changes=made, source=source.replace(made))
    return FileChange(path=path, before=source, after=result.source, result=result)


@given(TEXTS, st.data())
def test_accepting_does_what_was_suggested_and_only_to_that_text(text: str, data: st.DataObject) -> None:
    changes = ChangeSet.of(len(text), data.draw(apart(SourceText(text))))
    suggestion = create_suggestion(text, changes)
    assert accept(text, suggestion).text == changes.apply(text)
    assert create_suggestion(text, changes) == suggestion
    other = data.draw(TEXTS)
    assume(other != text)
    with pytest.raises(SuggestionGoneError):
        accept(other, suggestion)


@given(sources(), st.data())
def test_where_every_failure_has_a_suggestion_one_id_lands_the_whole_batch(
    source: SourceText, data: st.DataObject
) -> None:
    changes = data.draw(apart(source, least=2))
    kept, *suggested = data.draw(st.permutations(changes))
    result = FilesResult(
        files=(change_of("", source, kept),),
        failures=tuple(failure(at, source.text, each) for at, each in enumerate(suggested)),
    )
    refused = refuse({"": source}, result)
    (suggestion,) = refused.suggestions
    assert {each.suggestion.id for each in refused.failures if each.suggestion} == {suggestion.id}
    (landed,) = accept_batch(suggestion, {"": source})
    wanted = source.replace(ChangeSet.of(len(source.text), changes))
    assert written(landed.after) == written(wanted)
    if written(wanted) != written(source):
        with pytest.raises(SuggestionGoneError):
            accept_batch(suggestion, {"": wanted})


@given(sources(), st.data())
def test_a_failure_without_a_suggestion_leaves_each_other_one_to_itself(
    source: SourceText, data: st.DataObject
) -> None:
    changes = data.draw(apart(source))
    failures = [failure(at, source.text, each) for at, each in enumerate(changes)]
    refused = refuse({"": source}, FilesResult(files=(), failures=(*failures, failure(9, source.text))))
    assert [each.index for each in refused.failures] == [each.index for each in (*failures, failure(9, ""))]
    for each, told, suggestion in zip(changes, refused.failures, refused.suggestions, strict=False):
        assert told.suggestion is not None
        assert told.suggestion.id == suggestion.id
        (landed,) = accept_batch(suggestion, {"": source})
        alone = source.replace(ChangeSet.of(len(source.text), [each]))
        assert written(landed.after) == written(alone)
    assert refused.failures[-1].suggestion is None


@given(sources(), st.data())
def test_what_is_suggested_beside_edits_that_were_applied_is_for_the_text_they_left(
    source: SourceText, data: st.DataObject
) -> None:
    changes = data.draw(apart(source, least=2))
    kept, *suggested = data.draw(st.permutations(changes))
    applied = change_of("", source, kept)
    assert applied.after is not None
    failures = tuple(failure(at, source.text, each) for at, each in enumerate(suggested))
    refused = refuse_rest({"": source}, FilesResult(files=(applied,), failures=failures))
    if not refused.suggestions:  # what was applied joins two of them
        return
    (suggestion,) = refused.suggestions
    (landed,) = accept_batch(suggestion, {"": applied.after})
    assert landed.after is not None
    assert landed.after.text == ChangeSet.of(len(source.text), changes).apply(source.text)


def test_a_suggestion_that_touches_what_was_applied_is_left_out() -> None:
    source = SourceText("one\ntwo\n")
    applied = change_of("", source, Change(0, 3, "1"))
    rest = FilesResult(files=(applied,), failures=(failure(1, source.text, Change(2, 5, "x")),))
    refused = refuse_rest({"": source}, rest)
    assert (refused.suggestions, refused.failures[0].suggestion) == ((), None)


def test_two_suggestions_that_collide_are_accepted_one_or_the_other() -> None:
    source = SourceText("one\ntwo\n")
    failures = failure(0, source.text, Change(0, 3, "1")), failure(1, source.text, Change(2, 5, "x"))
    refused = refuse({"": source}, FilesResult(files=(), failures=failures))
    made = [accept_batch(each, {"": source})[0].after for each in refused.suggestions]
    assert [each.text for each in made if each] == ["1\ntwo\n", "onxwo\n"]


def test_what_the_file_cannot_hold_is_not_suggested() -> None:
    source = SourceText.from_bytes("日本語の設定\n".encode("cp932"))
    refused = refuse(
        {"": source}, FilesResult(files=(), failures=(failure(0, source.text, Change(0, 0, "🙂")),))
    )
    assert (refused.suggestions, refused.failures[0].suggestion) == ((), None)


def test_a_batch_over_files_lands_whole_with_what_comes_goes_and_moves() -> None:
    there = {name: SourceText.from_bytes(b"one\ntwo\n") for name in ("edited", "same", "gone", "moved")}
    result = FilesResult(
        files=(
            FileChange(path="new", before=None, after=SourceText("new\n")),
            FileChange(path="gone", before=there["gone"], after=None),
            FileChange(path="moved", before=there["moved"], after=there["moved"], to="elsewhere"),
            change_of("edited", there["edited"], Change(0, 3, "1")),
        ),
        failures=(
            failure(0, there["edited"].text, Change(4, 7, "2"), path="edited"),
            failure(1, there["same"].text, Change(4, 7, "II"), path="same"),
        ),
    )
    refused = refuse(there, result)
    (suggestion,) = refused.suggestions
    read = json.loads(json.dumps(suggestion.to_json()))
    assert BatchSuggestion.from_json(read) == suggestion
    landed = accept_batch(suggestion, {**there, "new": None})
    after = {change.to or change.path: change.after and change.after.to_bytes() for change in landed}
    assert after == {
        "new": b"new\n",
        "gone": None,
        "elsewhere": b"one\ntwo\n",
        "edited": b"1\n2\n",
        "same": b"one\nII\n",
    }
    for name in ("new", "gone", "moved", "edited", "same"):
        with pytest.raises(SuggestionGoneError):
            accept_batch(suggestion, {**there, "new": None, name: SourceText.from_bytes(b"another\n")})


def test_two_files_of_one_content_have_two_ids() -> None:
    source = SourceText("one\n")
    told = [
        refuse(
            {path: source},
            FilesResult(files=(), failures=(failure(0, "one\n", Change(0, 3, "1"), path=path),)),
            place=place,
        )
        .suggestions[0]
        .id
        for path, place in (("a", ""), ("b", ""), ("a", "elsewhere"))
    ]
    assert len(set(told)) == 3


@pytest.mark.parametrize("data", [{}, {"id": "x", "files": [1]}, {"id": "x", "files": None}])
def test_what_is_no_suggestion_is_not_read_as_one(data: object) -> None:
    with pytest.raises(ValueError, match="not a suggestion"):
        BatchSuggestion.from_json(data)  # pyright: ignore[reportArgumentType] - that is the point


def held(identity: str, size: int) -> BatchSuggestion:
    changes = ChangeSet.of(0, [Change(0, 0, "x" * size)])
    return BatchSuggestion(id=identity, files=(FileSuggestion(path="a", version=None, changes=changes),))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_the_store_keeps_the_latest_within_its_bounds(added: list[tuple[int, int]]) -> None:
    store = SuggestionStore(most=4, characters=15)
    latest: dict[str, BatchSuggestion] = {}
    for name, size in added:
        suggestion = held(str(name), size)
        store.add(suggestion)
        latest.pop(suggestion.id, None)
        latest[suggestion.id] = suggestion
        while len(latest) > 4 or (sum(each.size for each in latest.values()) > 15 and len(latest) > 1):
            del latest[next(iter(latest))]
    for name in map(str, range(10)):
        if name in latest:
            assert store.find(name) == latest[name]
            store.remove(name)
        with pytest.raises(SuggestionGoneError):
            store.find(name)


def test_a_deletion_that_is_refused_suggests_nothing() -> None:
    lines = "one = 1\ntwo_of_them = 2\nthree = 3\nfour = 4\n"
    stale = DeleteFile(path="a", text=lines.replace("= 2", "= 3"))
    with pytest.raises(EditError) as refused:
        apply_to_files({"a": lines}, [stale])
    assert [failure.suggestion for failure in refused.value.failures] == [None]
    edit = Edit(search=lines.replace("= 2", "= 3"), replace="", path="a")
    with pytest.raises(EditError) as refused:
        apply_to_files({"a": lines}, [edit])
    assert refused.value.failures[0].suggestion is not None


SUGGESTED: dict[str, tuple[str, str, str, str | None]] = {
    "another line than the one to delete": (
        "import Data.Char\nimport Data.List\nimport GHC\n",
        "import Data.Either\n",
        "",
        None,
    ),
    "a block of which one line is left": (
        "packaging\n    # via build\npyproject\n",
        "tomli==2.0.1\n    # via build\n",
        "",
        None,
    ),
    "blanks at the ends of lines that stay": (
        "a = 1\nb = load(xs)\nc = 3\n",
        "b = load(x)  \nc = 3  \n",
        "b = load(x)\nd = 4\nc = 3\n",
        "a = 1\nb = load(xs)\nd = 4\nc = 3\n",
    ),
    "a line that is only moved": (
        "a = 1\nb = load(xs)\nc = 3\n",
        "b = load(x)\n",
        "if q:\n    b = load(x)\n",
        "a = 1\nif q:\n    b = load(xs)\nc = 3\n",
    ),
    "the same change on both sides": (
        'locals {\n  kubernetes_version = "1.33"\n\n  tags = 1\n}\n',
        '  cluster_version = "1.31"\n\n  tags = 1\n',
        '  cluster_version = "1.33"\n\n  tags = 1\n',
        None,
    ),
    "a sign at the end of the file's line": (
        'readme = "README.md"\\\nz = 1\n',
        'readme = "README.md"\n',
        'readme = "README.md"\nlic = "MIT"\n',
        'readme = "README.md"\\\nlic = "MIT"\nz = 1\n',
    ),
    "what is there": (
        "root = true\n\n[*]\ncharset = utf-8\nend = lf\ninsert = true\nx = 1\n",
        "root = true\n\n[*]\nend = lf\n",
        "root = true\n\n[*]\nend = lf\ninsert = true\n",
        None,
    ),
    "text of a here-document": (
        "f() {\n  cat <<EOF\na\n  b\nEOF\n  x\n}\n",
        "cat <<EOF\na\n  b\nEOF\nx\n",
        "cat <<EOF\na\n  b\nc\nEOF\nx\n",
        None,
    ),
    "a line that someone put between those that go": (
        "first(1)\nsecond(2)\naudit(person)\nthird(3)\n",
        "first(1)\nsecond(2)\nthird(3)\n",
        "first(1)\nboth(23)\n",
        None,
    ),
    "one of two lines that are as much alike": (
        "import module_aa\nimport foo\nimport bar\nimport module_ab\n",
        "import module_ac\n",
        "",
        None,
    ),
    "a part of a word": (".venv/\n*.pyc\n", "venv/\n*.pyc\n", ".venv/\n*.pyc\n", None),
}


@pytest.mark.parametrize(("text", "search", "replace", "wanted"), [*SUGGESTED.values()], ids=[*SUGGESTED])
def test_a_suggestion_loses_nothing_of_the_file(
    text: str, search: str, replace: str, wanted: str | None
) -> None:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace)])
    suggestion = refused.value.failures[0].suggestion
    assert (suggestion and suggestion.changes.apply(text)) == wanted


def failure_of(text: str, search: str, replace_by: str) -> EditFailure:
    """Return why an edit is refused."""
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace_by)])
    return refused.value.failures[0]


def suggested(text: str, search: str, replace_by: str) -> str | None:
    """Return the text that the suggestion for a refused edit comes to."""
    suggestion = failure_of(text, search, replace_by).suggestion
    return suggestion and accept(text, suggestion).text


@pytest.mark.parametrize(
    ("text", "search", "replace_by", "wanted"),
    [
        # README's picture: another word within quotes that were curled
        ('if a:\n    say("Hello, " + x)\n', "if a:\n    say(“Bye, ” + x)\n", "if a:\n    say(“Hi, ” + x)\n",
         'if a:\n    say("Hi, " + x)\n'),
        # a new line, and one that comes for another
        ("say('a', 1)\n", "say(‘a’, 2)\n", "say(‘a’, 3)\ntell(‘b’)\n", "say('a', 3)\ntell('b')\n"),
        # quotes that SEARCH has none of, where it has others curly
        ('say("a", 1)\n', "say(“a”, 2)\n", "say(“it’s”, 3)\n", "say(\"it's\", 3)\n"),
        # what REPLACE keeps of the line has the file's typographic characters
        ("say(“a”, 1)\n", 'say("a", 2)\n', 'say("a", 3)\n', "say(“a”, 3)\n"),
        ("say(“a”, 1)\n", 'say("a", 1)\n', 'say("a", 2)\n', "say(“a”, 2)\n"),
        ("a\u00a0= 1\nb = 'x – y'\n", "a = 2\nb = 'x - y'\n", "a = 3\nb = 'x - z'\n",
         "a\u00a0= 3\nb = 'x – z'\n"),
        ("wait… 1\n", "wait... 2\n", "wait... 3\n", "wait… 3\n"),
        ("wait... 1\n", "wait… 2\n", "wait… 3\n", "wait... 3\n"),
        ("a = f(1)\n", "a\u00a0=\u00a0f(\u200b2)\n", "a\u00a0=\u00a0f(\u200b3)\u00a0+\u00a01\n",
         "a = f(3) + 1\n"),
        # in another layout
        ('call("first",\n     "second")\n', "call(“first”, “second”)\n", "call(“first”, “third”)\n",
         'call("first",\n     "third")\n'),
        # characters that SEARCH has as the file has them stay
        ("say(“a”, 1)\n", "say(“a”, 2)\n", "say(“b”, 3)\n", "say(“b”, 3)\n"),
        ('a = 1\nb = 2\n', "a = 3\nb = 2\n", "a = “3”\nb = 2\n", "a = “1”\nb = 2\n"),
    ],
)  # fmt: skip
def test_a_suggestion_is_in_the_characters_of_the_file(
    text: str, search: str, replace_by: str, wanted: str
) -> None:
    assert suggested(text, search, replace_by) == wanted


@pytest.mark.parametrize(
    ("text", "search", "replace_by"),
    [
        # which of two curly quotes a new straight one means
        ("say(“a”, 1)\n", 'say("a", 2)\n', 'say("a", "b")\n'),
        # an indentation of a blank that the text has nowhere
        (
            "first = here(\n aa\nlast_line(of=it)\n",
            "first\u2009=\xa0there(\n\xa0aa\nlast_line(of=it)\n",
            "first\u2009=\xa0there(\n\u2009aa\nlast_line(of=it)\n",
        ),
        # who writes both in one line means both
        ('say("a", 1)\n', "say(“a”, 2)\n", 'say(“a”, "b")\n'),
    ],
)
def test_none_is_made_where_the_characters_cannot_be_told(text: str, search: str, replace_by: str) -> None:
    assert suggested(text, search, replace_by) is None


TYPOGRAPHIC = {'"': "“”„", "'": "‘’", "-": "–—", " ": "\u00a0\u2009"}


@given(st.data(), st.text(alphabet="ab\"'- (,", min_size=3, max_size=20))
def test_no_typographic_character_that_a_model_quotes_with_gets_into_plain_code(
    data: st.DataObject, body: str
) -> None:
    def quoted(line: str) -> str:
        return "".join(
            data.draw(st.sampled_from(TYPOGRAPHIC[char])) if char in TYPOGRAPHIC else char for char in line
        )

    text = f"first line = here(\n{body}\nlast_line(of=it)\n"
    search = text.replace("here", "there").splitlines(keepends=True)
    new = data.draw(st.text(alphabet="abc\"'- (,", max_size=20))
    assume(body.strip() and set(new) & set(TYPOGRAPHIC) <= set(body))
    wanted = "".join([search[0], f"{new}\n", search[2]])
    try:
        apply(text, [Edit(search=quoted("".join(search)), replace=quoted(wanted))])
    except EditError as error:
        suggestion = error.failures[0].suggestion
        assert suggestion is None or accept(text, suggestion).text.isascii()


TWINS = "def one(x):\n    y = f(x, 1)\n    return y\n\n\ndef two(x):\n    y = f(x, 22)\n    return y\n"


def test_of_two_near_places_the_nearer_is_suggested() -> None:
    search, new = "    y = f(x, 222)\n    return y\n", "    y = f(x, 4)\n    return y\n"
    assert suggested(TWINS, search, new) == TWINS.replace("22", "4")


def test_of_two_places_that_are_equally_near_none_is_suggested_and_both_are_told() -> None:
    text = TWINS.replace("22", "2")
    told = failure_of(text, "    y = f(x, 3)\n    return y\n", "    y = f(x, 4)\n    return y\n")
    assert told.suggestion is None
    assert "2 places are equally like SEARCH, at lines 2, 7" in told.message

"""Formats failures for people: Japanese sentences, and hints for a refused edit of a model's reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kakite.edit.errors.model import EditFailure, FailureCode


def format_message_ja(failure: EditFailure) -> str:
    """Return what was expected and what was found."""
    return _MESSAGES_JA[failure.code](failure)


def format_hint_ja(failure: EditFailure) -> str:
    """Return what to do next."""
    return _HINTS_JA[failure.code]


def _format_ambiguous_ja(failure: EditFailure) -> str:
    lines = "、".join(str(candidate.line) for candidate in failure.candidates[:8])
    return f"SEARCH に一致する場所が複数あります ({lines} 行目)"


def _format_near_miss_ja(failure: EditFailure) -> str:
    found, sent = (text.strip()[:100] for text in (failure.found, failure.sent))
    if not sent:
        return f"{failure.line} 行目の `{found}` が SEARCH にありません"
    if not found:
        return f"{failure.line} 行目の後に `{sent}` がありません"
    return f"{failure.line} 行目は `{found}` ですが、SEARCH では `{sent}` です"


def _format_not_found_ja(failure: EditFailure) -> str:
    near = f"。最も似ているのは {failure.candidates[0].line} 行目です" if failure.candidates else ""
    return f"SEARCH が見つかりません{near}"


_MESSAGES_JA: dict[str, Callable[[EditFailure], str]] = {
    "already_applied": lambda one: f"SEARCH はありませんが、REPLACE はすでに {one.line} 行目にあります",
    "ambiguous": _format_ambiguous_ja,
    "bad_path": lambda one: f"`{one.found}` はフォルダーの外にあるか、パスとして正しくありません",
    "empty_search": lambda _: "SEARCH が空です",
    "file_exists": lambda one: f"ファイル `{one.found}` はすでにあります",
    "file_missing": lambda one: f"ファイル `{one.found}` がありません",
    "file_operation": lambda _: "ファイルの作成、削除、移動はここではできません",
    "indentation_unclear": lambda one: f"{one.line} 行目とは字下げが異なり、REPLACE の深さを決められません",
    "near_miss": _format_near_miss_ja,
    "no_effect": lambda _: "この編集をしても、何も変わりません",
    "not_encodable": lambda one: f"文字 `{one.found}` は、このファイルの文字コードでは書けません",
    "not_found": _format_not_found_ja,
    "overlap": lambda one: (
        f"編集 {one.other + 1} と編集 {one.index + 1} が、どちらも {one.line} 行目を変更します"
    ),
    "placeholder": lambda one: f"REPLACE に省略があります: `{one.sent.strip()[:100]}`",
    "too_much": lambda _: "SEARCH に似た場所が多すぎて、すべては調べられません",
    "wrapped": lambda one: (
        f"REPLACE の行に囲み・行番号・差分の記号が付いています: `{one.sent.strip()[:100]}`"
    ),
}
_HINTS_JA: dict[str, str] = {
    "already_applied": "すでに済んだ編集なら、取り除いてください",
    "ambiguous": "一か所に決まるまで前後の行を SEARCH に加えるか、行番号を指定してください",
    "bad_path": "フォルダーの中のファイルを、相対パスで指定してください",
    "empty_search": "置き換える行を SEARCH に書いてください。挿入するときは、隣の行を両方に書いてください",
    "file_exists": "そのファイルを編集するか、別の名前にしてください",
    "file_missing": "編集できるファイルの名前を指定してください",
    "file_operation": "テキストの編集だけを送ってください",
    "indentation_unclear": "SEARCH と REPLACE を、ファイルと同じ字下げで書いてください",
    "near_miss": "どちらが正しいかを確かめ、ファイルにあるとおりに書いてください",
    "no_effect": "この編集を取り除くか、置き換える文を REPLACE に書いてください",
    "not_encodable": "別の文字で書くか、先にファイルを UTF-8 に変換してください",
    "not_found": "もう一度ファイルを読み、行をそのまま写してください",
    "overlap": "二つの編集を一つにまとめてください",
    "placeholder": "REPLACE を省略せずに書くか、両方の同じ所に `...` の行を置いてください",
    "too_much": "その場所の近くにしかない行を SEARCH に加えるか、行番号を指定してください",
    "wrapped": "REPLACE を、囲み・行番号・差分の記号なしで、ファイルに書くとおりに書いてください",
}


def add_notebook_hint(hint: str, failure: EditFailure) -> str:
    """Return a hint, and for a text that is not in a notebook's JSON where its cells are edited."""
    is_notebook = failure.path.lower().endswith(".ipynb")
    return f"{hint}{_IN_CELLS}" if is_notebook and failure.code in {"not_found", "near_miss"} else hint


_IN_CELLS = "; this edits the JSON of the notebook, to edit the text of its cells use the tool `text_editor`"


def format_person_hint(failure: EditFailure) -> str:
    """Return what to do next; where only the edit itself can tell, what the model is told."""
    told = add_notebook_hint(_HINTS[failure.code], failure) if failure.code in _HINTS else failure.hint
    return (
        f"{told}{_OR_ACCEPT.get(failure.code, '; or accept the suggestion')}" if failure.suggestion else told
    )


_AGAIN = "show the model the file as it is now, and ask for the edit again"
_HINTS: dict[FailureCode, str] = {
    "already_applied": "leave this edit out of the reply if it was applied before",
    "ambiguous": "in the reply, add lines before or after those of SEARCH, until only one place has them all",
    "empty_search": "in the reply, put the lines to replace into SEARCH (to insert: a line beside them)",
    "file_operation": "correct the edit of this file that was refused, then apply the reply again",
    "indentation_unclear": "in the reply, indent SEARCH and REPLACE as the file does",
    "near_miss": "if the file is right, correct SEARCH in the reply; else show the model the file",
    "no_effect": "leave this edit out of the reply, or write into REPLACE what should be there",
    "not_encodable": "use other characters in the reply, or convert the file to UTF-8 first",
    "not_found": _AGAIN,
    "overlap": "join the two edits into one in the reply",
    "placeholder": "ask the model for the whole text, without anything left out",
    "too_much": "apply fewer edits at once, or add lines to SEARCH that stand near the place only",
    "wrapped": "take the fence, the line numbers or the signs of a diff out of REPLACE in the reply",
}
_OR_ACCEPT: dict[FailureCode, str] = {
    "already_applied": "; to have it twice, accept the suggestion",
    "placeholder": "; if the loss is meant, accept it",
}

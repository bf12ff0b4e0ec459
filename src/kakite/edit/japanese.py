"""Failures as Japanese sentences, made from their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kakite.edit.failures import Failure


def message(failure: Failure) -> str:
    """Return what was expected and what was found."""
    return _MESSAGES[failure.code](failure)


def hint(failure: Failure) -> str:
    """Return what to do next."""
    return _HINTS[failure.code]


def _ambiguous(failure: Failure) -> str:
    lines = "、".join(str(candidate.line) for candidate in failure.candidates[:8])
    return f"SEARCH に一致する場所が複数あります ({lines} 行目)"


def _near_miss(failure: Failure) -> str:
    found, sent = (text.strip()[:100] for text in (failure.found, failure.sent))
    if not sent:
        return f"{failure.line} 行目の `{found}` が SEARCH にありません"
    if not found:
        return f"{failure.line} 行目の後に `{sent}` がありません"
    return f"{failure.line} 行目は `{found}` ですが、SEARCH では `{sent}` です"


def _not_found(failure: Failure) -> str:
    near = f"。最も似ているのは {failure.candidates[0].line} 行目です" if failure.candidates else ""
    return f"SEARCH が見つかりません{near}"


_MESSAGES: dict[str, Callable[[Failure], str]] = {
    "already_applied": lambda one: f"SEARCH はありませんが、REPLACE はすでに {one.line} 行目にあります",
    "ambiguous": _ambiguous,
    "bad_path": lambda one: f"`{one.found}` はフォルダーの外にあるか、パスとして正しくありません",
    "empty_search": lambda _: "SEARCH が空です",
    "file_exists": lambda one: f"ファイル `{one.found}` はすでにあります",
    "file_missing": lambda one: f"ファイル `{one.found}` がありません",
    "file_operation": lambda _: "ファイルの作成、削除、移動はここではできません",
    "indentation_unclear": lambda one: f"{one.line} 行目とは字下げが異なり、REPLACE の深さを決められません",
    "near_miss": _near_miss,
    "no_effect": lambda _: "この編集をしても、何も変わりません",
    "not_encodable": lambda one: f"文字 `{one.found}` は、このファイルの文字コードでは書けません",
    "not_found": _not_found,
    "overlap": lambda one: (
        f"編集 {one.other + 1} と編集 {one.index + 1} が、どちらも {one.line} 行目を変更します"
    ),
    "placeholder": lambda one: f"REPLACE に省略があります: `{one.sent.strip()[:100]}`",
    "too_much": lambda _: "SEARCH に似た場所が多すぎて、すべては調べられません",
    "wrapped": lambda one: f"REPLACE の行が囲みか行番号の中にあります: `{one.sent.strip()[:100]}`",
}
_HINTS: dict[str, str] = {
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
    "wrapped": "REPLACE を、囲みや行番号なしで、ファイルに書くとおりに書いてください",
}

"""What is offered behind ``@``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.session.context import complete_mention, expand_mentions, list_paths
from tests.agent.session.context.places import make_places

PATHS = (
    "docs/",
    "docs/session.md",
    "src/",
    "src/session/",
    "src/session/context.py",
    "src/session/Context view.py",
    "src/state.py",
    "tests/test_context.py",
)
NAMES = st.lists(st.sampled_from(["a", "ab", "B", "é", "a b", "c.py"]), min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("src/st", "src/state.py"),
        ("context", "src/session/context.py"),
        ("CONTEXT", "src/session/context.py"),
        ("se/co", "src/session/context.py"),
        ("s/ctx", "src/session/context.py"),
        ("test_c", "tests/test_context.py"),
        ("./docs/s", "docs/session.md"),
        ('"src/session/Context v', '"src/session/Context view.py"'),
    ],
)
def test_the_likeliest_comes_first(typed: str, first: str) -> None:
    assert complete_mention(typed, PATHS)[0] == first


def test_nothing_typed_offers_what_lies_here() -> None:
    assert complete_mention("", PATHS) == ["src/", "docs/"]
    assert complete_mention("nothing", PATHS) == []
    assert complete_mention("s", PATHS, limit=2) == ["src/", "src/session/"]


@given(
    st.lists(NAMES, max_size=20, unique=True),
    st.text(st.sampled_from("abB/ .cépy"), max_size=6),
    st.integers(1, 9),
)
def test_only_what_there_is_is_offered_and_each_once(paths: list[str], typed: str, limit: int) -> None:
    offered = complete_mention(typed, paths, limit=limit)
    bare = [each.strip('"') for each in offered]
    assert len(set(offered)) == len(offered) <= limit
    assert set(bare) <= set(paths)
    begins = [path for path in paths if path.casefold().startswith(typed.casefold())]
    if typed and not typed.startswith("./"):
        assert len(set(bare) & set(begins)) == min(len(begins), limit)


@given(NAMES, st.data())
def test_the_letters_of_a_path_in_their_order_find_it(path: str, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(path), max_size=len(path)))
    typed = "".join(letter for letter, keep in zip(path, kept, strict=True) if keep or letter == "/")
    assert not typed or typed.startswith("./") or complete_mention(typed, [path]) != []


def test_what_is_ignored_or_secret_is_not_offered_and_what_is_offered_names_a_file() -> None:
    files = {".gitignore": "build/\n", "build/x": "x", ".env": "K", "a b/ü.py": "1", "c.py": "2", "n\nl": "3"}
    with make_places(files) as places:
        paths = list_paths(places.project)
        assert paths == (".gitignore", "a b/", "a b/ü.py", "c.py")
        offered = complete_mention("", paths) + complete_mention("ü", paths)
        message = expand_mentions(" ".join(f"@{each}" for each in offered), places.project)
        assert [mention.path for mention in message.mentions] == ["a b", "c.py", ".gitignore", "a b/ü.py"]

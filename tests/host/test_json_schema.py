"""Laws of checking values against schemas that servers send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kakite.host.json_schema import Schema
from tests.bounds import count_calls

NAMES = st.sampled_from(["a", "b", "c"])
ODD = st.sampled_from(
    [{}, True, False, {"type": ["string", "null"]}, {"minLength": 2}, {"type": "string", "maxLength": 1}]
)
PLAIN = st.sampled_from(["string", "boolean", "integer", "number", "object", "array", "null"]).map(
    lambda kind: {"type": kind, "description": "words"}
)
CHOICE = st.lists(st.sampled_from(["x", "y", 1, True]), min_size=1, unique_by=repr).map(
    lambda choices: {"type": "string", "enum": choices}
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "string", ["object", "null"]]),
        "properties": st.dictionaries(NAMES, PLAIN | CHOICE | ODD, max_size=3),
        "required": st.lists(NAMES, unique=True),
        "additionalProperties": st.booleans() | PLAIN,
        "title": st.just("a title"),
        "minProperties": st.just(2),
    },
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([1.0, 0.5, float("nan")]),
    st.sampled_from(["", "x", "y", "yy"]), st.just([]), st.just([1]), st.just({}), st.just({"a": 1}),
)  # fmt: skip
GIVEN = st.dictionaries(NAMES | st.just("other"), VALUES, max_size=4) | VALUES


@given(OBJECTS, GIVEN)
def test_a_value_fits_exactly_when_the_library_says_so(schema: dict[str, Any], value: Any) -> None:
    library: Any = Draft202012Validator(schema)

    assert (Schema(schema).find_violation(value) == ("", "")) == bool(library.is_valid(value))


def test_a_value_that_fits_a_plain_schema_costs_far_less_than_the_library() -> None:
    told = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    ours, value = Schema(told), {"a": "x"}
    library: Any = Draft202012Validator(told)

    def work(check: Callable[[Any], object]) -> int:
        return count_calls(lambda: check(value))

    assert ours.find_violation(value) == ("", "")
    assert work(ours.find_violation) * 3 < work(library.is_valid)

"""Laws of the lines that an editor sends to ``kakite acp``."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.acp.transport import parse_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text() | JSON,
        "method": st.text() | JSON,
        "params": st.dictionaries(st.text(), JSON, max_size=2) | JSON,
        "result": JSON,
        "error": JSON,
    },
)


@given(st.binary())
def test_bytes_are_a_message_or_an_error_and_nothing_is_raised(line: bytes) -> None:
    message, error = parse_message(line)
    if error is None:
        assert json.loads(line) == message
    else:
        assert error.code in {-32700, -32600}


@given(FIELDS | JSON)
def test_what_is_taken_is_a_request_or_an_answer_by_the_specification(value: Any) -> None:
    message, error = parse_message(json.dumps(value).encode())
    if error is not None:
        assert error.code == -32600
        return
    assert message == value
    assert message["jsonrpc"] == "2.0"
    assert isinstance(message.get("method"), str) or (
        "id" in message and {"result", "error"} & message.keys()
    )
    assert not isinstance(message.get("id"), bool | float | list | dict)


@given(st.integers() | st.text(), st.text(), st.dictionaries(st.text(), JSON, max_size=3))
def test_every_request_is_taken(request_id: int | str, method: str, params: dict[str, Any]) -> None:
    value = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    assert parse_message(json.dumps(value).encode()) == (value, None)

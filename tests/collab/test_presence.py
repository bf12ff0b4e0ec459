"""Who is on a page: what one connection says of clients, and what all others are told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.presence import MOST_STATE, Presence
from kakite.collab.wire import Reader, WireError, text, uint


def update(*told: tuple[int, int, object]) -> bytes:
    return uint(len(told)) + b"".join(uint(c) + uint(k) + text(json.dumps(state)) for c, k, state in told)


def read(told: bytes | None) -> list[tuple[int, int, object]]:
    if told is None:
        return []
    reader = Reader(told)
    return [(reader.uint(), reader.uint(), json.loads(reader.text())) for _ in range(reader.uint())]


class Replica:
    """What a browser sees, by the rules of y-protocols."""

    def __init__(self) -> None:
        self.clocks: dict[int, int] = {}
        self.states: dict[int, object] = {}

    def hear(self, told: bytes | None) -> None:
        for client, clock, state in read(told):
            known = self.clocks.get(client, 0)
            if known < clock or (known == clock and state is None and client in self.states):
                self.clocks[client] = clock
                if state is None:
                    self.states.pop(client, None)
                else:
                    self.states[client] = state


def test_one_who_comes_back_with_an_old_clock_is_seen_again() -> None:
    presence, ben = Presence(), Replica()
    first, second = object(), object()
    ben.hear(presence.take(update((7, 3, {"at": 1})), first))
    ben.hear(presence.leave(first))
    assert ben.states == {}
    ben.hear(presence.take(update((7, 3, {"at": 1})), second))
    assert ben.states == {7: {"at": 1}}
    ben.hear(presence.take(update((7, 4, {"at": 2})), second))
    assert ben.states == {7: {"at": 2}}


def test_one_who_is_back_before_the_old_connection_is_missed_stays() -> None:
    presence, ben = Presence(), Replica()
    first, second = object(), object()
    ben.hear(presence.take(update((7, 3, {"at": 1})), first))
    ben.hear(presence.take(update((7, 3, {"at": 1})), second))
    ben.hear(presence.leave(first))
    assert ben.states == {7: {"at": 1}}


def test_nobody_speaks_for_the_clients_of_others() -> None:
    presence = Presence()
    ann, ben = object(), object()
    presence.take(update((1, 1, {"name": "Ann"})), ann)
    presence.take(update((2, 1, {"name": "Ben"})), ben)
    assert presence.take(update((1, 9, {"name": "no"}), (1, 9, None)), ben) is None
    assert read(presence.all()) == [(1, 1, {"name": "Ann"}), (2, 1, {"name": "Ben"})]


@pytest.mark.parametrize(
    "bad", [b"", b"\x01", b"\xff" * 20, update((1, 1, 5)), update((1, 1, {"x": "y" * MOST_STATE}))]
)
def test_nonsense_is_refused(bad: bytes) -> None:
    with pytest.raises(WireError):
        Presence().take(bad, object())


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    try:
        Presence().take(data, object())
    except WireError:
        return


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["say", "leave", "come"]), st.integers(0, 3)), max_size=40
)


@given(ACTIONS)
def test_those_who_watch_see_those_who_are_there(actions: list[tuple[int, str, int]]) -> None:
    presence, watcher = Presence(), Replica()
    connections: dict[int, object] = {}
    clocks = dict.fromkeys(range(3), 1)
    there: dict[int, object] = {}
    for client, action, value in actions:
        if action == "leave":
            if client in connections:
                watcher.hear(presence.leave(connections.pop(client)))
                there.pop(client, None)
            continue
        if action == "come" or client not in connections:
            connections[client] = object()  # the old one, if there is one, is not yet missed
        else:
            clocks[client] += 1
        state = {"at": value} if action == "say" else there.get(client, {"at": 0})
        if action == "come" and client in there:
            state = there[client]
        there[client] = state
        watcher.hear(presence.take(update((client, clocks[client], state)), connections[client]))
        late = Replica()
        late.hear(presence.all())
        assert late.states == watcher.states == there

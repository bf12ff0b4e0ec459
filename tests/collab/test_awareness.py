"""Who is on a page: what one connection says of clients, and what all others are told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.realtime.protocol import (
    MAX_STATE,
    AwarenessServer,
    SyncMessageReader,
    SyncProtocolError,
    write_var_string,
    write_var_uint,
)


def update(*told: tuple[int, int, object]) -> bytes:
    return write_var_uint(len(told)) + b"".join(
        write_var_uint(c) + write_var_uint(k) + write_var_string(json.dumps(state)) for c, k, state in told
    )


def read(told: bytes | None) -> list[tuple[int, int, object]]:
    if told is None:
        return []
    reader = SyncMessageReader(told)
    return [
        (reader.read_var_uint(), reader.read_var_uint(), json.loads(reader.read_var_string()))
        for _ in range(reader.read_var_uint())
    ]


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
    presence, ben = AwarenessServer(), Replica()
    first, second = object(), object()
    ben.hear(presence.apply_update(update((7, 3, {"at": 1})), first))
    ben.hear(presence.leave(first))
    assert ben.states == {}
    ben.hear(presence.apply_update(update((7, 3, {"at": 1})), second))
    assert ben.states == {7: {"at": 1}}
    ben.hear(presence.apply_update(update((7, 4, {"at": 2})), second))
    assert ben.states == {7: {"at": 2}}


def test_one_who_is_back_before_the_old_connection_is_missed_stays() -> None:
    presence, ben = AwarenessServer(), Replica()
    first, second = object(), object()
    ben.hear(presence.apply_update(update((7, 3, {"at": 1})), first))
    ben.hear(presence.apply_update(update((7, 3, {"at": 1})), second))
    ben.hear(presence.leave(first))
    assert ben.states == {7: {"at": 1}}


def test_nobody_speaks_for_the_clients_of_others() -> None:
    presence = AwarenessServer()
    ann, ben = object(), object()
    presence.apply_update(update((1, 1, {"name": "Ann"})), ann)
    presence.apply_update(update((2, 1, {"name": "Ben"})), ben)
    assert presence.apply_update(update((1, 9, {"name": "no"}), (1, 9, None)), ben) is None
    assert read(presence.encode_all()) == [(1, 1, {"name": "Ann"}), (2, 1, {"name": "Ben"})]


@pytest.mark.parametrize(
    "bad", [b"", b"\x01", b"\xff" * 20, update((1, 1, 5)), update((1, 1, {"x": "y" * MAX_STATE}))]
)
def test_nonsense_is_refused(bad: bytes) -> None:
    with pytest.raises(SyncProtocolError):
        AwarenessServer().apply_update(bad, object())


STATES: st.SearchStrategy[dict[str, int] | None] = st.sampled_from([None, {}, {"at": 1}, {"at": 2}])
UPDATES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), STATES), max_size=3).map(
    lambda states: update(*states)
)
CUT = st.tuples(UPDATES, st.integers(0, 30)).map(lambda drawn: drawn[0][: drawn[1]])


@given(st.lists(st.tuples(st.integers(0, 1), st.one_of(UPDATES, CUT, st.binary(max_size=60))), max_size=6))
def test_whatever_bytes_are_sent_those_who_watch_and_those_who_come_see_the_same(
    sent: list[tuple[int, bytes]],
) -> None:
    presence, watcher, owners = AwarenessServer(), Replica(), (object(), object())
    for owner, data in sent:
        try:
            told = presence.apply_update(data, owners[owner])
        except SyncProtocolError:
            told = None
        watcher.hear(told)
        late = Replica()
        late.hear(presence.encode_all())
        assert late.states == watcher.states
    for owner in owners:
        watcher.hear(presence.leave(owner))
    assert watcher.states == {}
    assert presence.encode_all() is None


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["say", "leave", "come"]), st.integers(0, 3)), max_size=40
)


@given(ACTIONS)
def test_those_who_watch_see_those_who_are_there(actions: list[tuple[int, str, int]]) -> None:
    presence, watcher = AwarenessServer(), Replica()
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
        watcher.hear(presence.apply_update(update((client, clocks[client], state)), connections[client]))
        late = Replica()
        late.hear(presence.encode_all())
        assert late.states == watcher.states == there

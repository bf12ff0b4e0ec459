"""The store of texts: what was put comes back, once, in order, or its loss is told."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.durable.blobs import BlobError, BlobStore

TREES = st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=40)), min_size=1, max_size=30)
"""Each: which earlier one it follows (or none), and what it says."""


def plant(store: BlobStore, tree: list[tuple[int, bytes]]) -> tuple[list[str], list[list[bytes]]]:
    """Put a tree; return the names, and each one's chain as it was put."""
    names: list[str] = []
    chains: list[list[bytes]] = []
    for parent, data in tree:
        follows = parent < len(names)
        names.append(store.put(data, names[parent] if follows else None))
        chains.append([*(chains[parent] if follows else []), data])
    return names, chains


@given(tree=TREES)
def test_a_chain_comes_back_as_it_was_put_and_the_same_is_kept_once(tree: list[tuple[int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names, chains = plant(BlobStore(Path(folder)), tree)
        again, _ = plant(BlobStore(Path(folder)), tree)
        assert names == again
        assert len(list(Path(folder).glob("??/*"))) == len({tuple(chain) for chain in chains})
        for name, chain in zip(names, chains, strict=True):
            assert [blob.data for blob in BlobStore(Path(folder)).get_chain(name)] == chain


@given(content=st.binary(max_size=60), at=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_changed_bit_is_told(content: bytes, at: int, bit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(Path(folder))
        root = store.put(b"root")
        name = store.put(content, root)
        file = Path(folder) / name[:2] / name
        changed = bytearray(file.read_bytes())
        changed[at % len(changed)] ^= 1 << bit
        file.write_bytes(changed)
        with pytest.raises(BlobError) as caught:
            store.get_chain(name)
        assert caught.value.code == "blob_corrupt"
        assert store.put(content, root) == name  # and putting it again mends it
        assert store.get(name).data == content


def test_a_chain_can_be_read_from_where_one_was(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    first = store.put(b"1")
    second = store.put(b"2", first)
    third = store.put(b"3", second)
    assert [blob.data for blob in store.get_chain(third, after=first)] == [b"2", b"3"]


@pytest.mark.parametrize("name", ["", "0" * 64, "../../etc/passwd", "A" * 64])
def test_what_is_no_blob_of_ours_is_missing(tmp_path: Path, name: str) -> None:
    store = BlobStore(tmp_path)
    for call in (lambda: store.get(name), lambda: store.put(b"x", name)):
        with pytest.raises(BlobError) as caught:
            call()
        assert caught.value.code == "blob_missing"


WRITER = """
import sys
from pathlib import Path
from kakite.durable.blobs import BlobStore
store, head = BlobStore(Path(sys.argv[1])), None
for number in range(100000):
    head = store.put(b"%d" % number * 1000, head)
    print(head, flush=True)
"""


def test_killed_in_the_middle_of_writing_all_that_was_told_is_there(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, encoding="utf-8"
    ) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().strip() for _ in range(20)]
        writer.kill()
        told += [line.strip() for line in writer.stdout if line.endswith("\n")]
    store = BlobStore(tmp_path)
    assert [blob.sha for blob in store.get_chain(told[-1])] == told
    assert set(told) <= {file.name for file in tmp_path.glob("??/*")}

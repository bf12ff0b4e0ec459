"""That nothing which users of the two peers rely on was left out. See ``peers``."""

from __future__ import annotations

from tests.tools import (
    test_peers_diffs,
    test_peers_editor,
    test_peers_files,
    test_peers_lines,
    test_peers_replacing,
)
from tests.tools.peers import SHOWN

PARTS = (test_peers_diffs, test_peers_editor, test_peers_files, test_peers_lines, test_peers_replacing)


def test_every_behaviour_of_both_peers_has_an_exchange() -> None:
    assert len(set(PARTS)) == 5
    bhouston = {f"bhouston-{number:02}" for number in range(1, 24)}
    fileditor = {f"fileditor-{number:03}" for number in range(1, 119)}
    assert bhouston | fileditor == SHOWN

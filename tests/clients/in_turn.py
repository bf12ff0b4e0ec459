"""Wait until it is this program's turn, then become another: ``in_turn.py PLACES PROGRAM ARGUMENT…``.

The conformance suite starts all its clients at once, and gives each the same time. So many programs on a
small machine are measured by its load: here a few run at a time, the others wait and cost nothing.
"""

import fcntl
import os
import sys
import time
from pathlib import Path


def take(places: int) -> None:
    """Hold one of the places until this process ends, whatever it became."""
    files = [os.open(Path.home() / f"place-{at}", os.O_CREAT | os.O_RDWR, 0o600) for at in range(places)]
    while True:
        for file in files:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            os.set_inheritable(file, True)
            return
        time.sleep(0.1)


if __name__ == "__main__":
    take(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])

"""How long tests wait, at the most, for what has to happen."""

from __future__ import annotations

WITHIN = 120  # s
"""For whatever comes by itself: an answer, the end of a program, a file.

A wait ends at once when that comes, so a long bound costs nothing; a short one fails tests on machines that
do other work too. Only what must *not* come in time has a bound of its own.
"""

"""Applies the image's seccomp filter to the programs in a container.

Standard library only: this runs inside.
"""

from __future__ import annotations

import ctypes

FORBIDDEN = "/opt/kakite/seccomp.bpf"
_PR_SET_SECCOMP = 22


class _SockFprog(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ushort), ("code", ctypes.c_void_p))


class SyscallFilter:
    """The list, read. An empty one is of a machine on which it could not be compiled."""

    def __init__(self) -> None:
        """Read it.

        Raises:
            OSError: it is not there, which is an accident.
        """
        with open(FORBIDDEN, "rb") as file:  # noqa: PTH123 - pathlib costs
            code = file.read()
        self._size = len(code)
        self._kept = ctypes.create_string_buffer(code, len(code))
        self._filter = _SockFprog(len(code) // 8, ctypes.cast(self._kept, ctypes.c_void_p))

    def apply(self) -> bool:
        """Put the list into force for us and all that comes of us; return whether that was done."""
        if not self._size:
            return True
        return ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, 2, ctypes.byref(self._filter), 0, 0) == 0

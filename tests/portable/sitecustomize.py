"""Takes from Python what only Linux has, in every program that is started with this folder on its path.

So the same tests show what Kakite does on another POSIX system: without ``openat2``, ``O_PATH``, locks that
an open file owns, extended attributes and ``/proc``. The path of a descriptor is told as macOS does.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import os
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any, cast

F_GETPATH = 50  # as macOS numbers it
_CALLS = frozenset({"syscall", "prctl", "renameat2"})
_read_link, _control = os.readlink, fcntl.fcntl


def _is_hidden(path: Any) -> bool:
    text = "" if isinstance(path, int) else os.fsdecode(path)
    return text == "/proc" or text.startswith("/proc/")


def _without_proc(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any = ".", *arguments: Any, **named: Any) -> Any:
        if _is_hidden(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *arguments, **named)

    return call


def _get_path(file: int, command: int, argument: Any = 0) -> Any:
    if command != F_GETPATH:
        return cast("Any", _control(file, command, argument))
    path = os.fsencode(_read_link(f"/proc/self/fd/{file}"))
    if path.endswith(b" (deleted)"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return path.ljust(len(argument), b"\0")


class _Library(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if name in _CALLS:
            raise AttributeError(name)
        return super().__getattr__(name)


for module, names in (
    (os, ("O_PATH", "pidfd_open", "listxattr", "getxattr", "setxattr", "removexattr")),
    (fcntl, ("F_OFD_SETLK", "F_OFD_SETLKW", "F_OFD_GETLK")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for module, names in ((os, ("open", "listdir", "readlink", "stat")), (builtins, ("open",))):
    for name in names:
        setattr(module, name, _without_proc(getattr(module, name)))
fcntl.F_GETPATH, fcntl.fcntl = F_GETPATH, _get_path  # pyright: ignore[reportAttributeAccessIssue]
ctypes.CDLL = _Library  # pyright: ignore[reportAttributeAccessIssue]
sysconfig.get_config_vars()  # read while it finds them
sys.platform = "darwin"
_proxies = types.ModuleType("_scproxy")  # what Python has of macOS itself
_proxies._get_proxies = _proxies._get_proxy_settings = dict  # pyright: ignore[reportAttributeAccessIssue]
sys.modules["_scproxy"] = _proxies

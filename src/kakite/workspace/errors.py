"""Defines the errors of reading and writing files, and maps the system's errors to them."""

from __future__ import annotations

import errno
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from kakite.errors import ExternalError, KakiteError


class WorkspaceError(KakiteError):
    """A path could not be read, listed or written. Nothing was changed.

    Codes: ``bad_path``, ``path_escapes``, ``file_not_found``, ``file_exists``, ``is_a_directory``,
    ``not_a_directory``, ``not_a_file``, ``is_a_mount``, ``too_large``, ``write_denied``, ``no_permission``,
    ``stale``, ``busy``, ``nothing_to_undo``, ``no_root``, ``root_gone``, ``history_failed``, ``io_failed``,
    ``buffer_failed``, ``buffer_unsaved``.
    """

    code = "io_failed"

    def __init__(self, code: str, path: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.path = path
        if code in {"history_failed", "busy"}:
            self.exit_code = ExternalError.exit_code
        self.version = ""
        """For ``stale``: the version of what is there now; empty if there is no file."""
        self.diff = ""
        """For ``stale``: what was changed since the version expected, as a unified diff.

        Cut where it gets long; empty where nobody knows what that version held.
        """
        self.each: tuple[WorkspaceError, ...] = ()
        """One for each file, where several could not be written together."""


def make_edit_log_error(where: str, told: str, hint: str = "") -> WorkspaceError:
    """Return the error for an edit log that cannot be used. Files can be read all the same."""
    hint = hint or "check that the disk has room and that you may write there; reading works meanwhile"
    return WorkspaceError("history_failed", where, f"the journal of edits `{where}` {told}", hint=hint)


def make_busy_error(path: str, told: str) -> WorkspaceError:
    """Return the error for what somebody else holds for too long."""
    hint = "nothing was changed: try again; if it stays so, end the other program that is writing there"
    return WorkspaceError("busy", path, told, hint=hint)


def join_errors(errors: Sequence[WorkspaceError]) -> WorkspaceError:
    """Return one error that names them all; it has the code of the first."""
    if len(errors) == 1:
        return errors[0]
    first = errors[0]
    told = "; ".join(error.message for error in errors)
    whole = WorkspaceError(first.code, first.path, told, hint=first.hint)
    whole.version, whole.diff, whole.each = first.version, first.diff, tuple(errors)
    return whole


_BY_ERRNO = {
    errno.ENOENT: ("file_not_found", "`{path}` does not exist"),
    errno.ENOTDIR: ("not_a_directory", "`{path}` goes through something that is not a folder"),
    errno.EISDIR: ("is_a_directory", "`{path}` is a folder"),
    errno.EEXIST: ("file_exists", "`{path}` exists already"),
    errno.EXDEV: ("path_escapes", "`{path}` leads out of the workspace"),
    errno.ELOOP: ("path_escapes", "`{path}` is a link that may not be followed"),
    errno.EACCES: ("no_permission", "no permission for `{path}`"),
    errno.EPERM: ("no_permission", "no permission for `{path}`"),
    errno.EROFS: ("no_permission", "`{path}` lies on a file system that cannot be written"),
    errno.EBUSY: ("is_a_mount", "`{path}` is mounted by itself and cannot be replaced"),
    errno.ENAMETOOLONG: ("bad_path", "`{path}` is too long a name"),
    errno.EINVAL: ("bad_path", "`{path}` is not a usable name"),
    errno.ENXIO: ("not_a_file", "`{path}` is not a regular file"),
    errno.ENOSPC: ("io_failed", "the disk is full, `{path}` was left as it was"),
    errno.EDQUOT: ("io_failed", "the disk quota is used up, `{path}` was left as it was"),
}

_HINTS = {
    "file_not_found": "view the folder to see which files there are",
    "path_escapes": "use a path below the workspace folder",
    "file_exists": "view it, then change it with str_replace",
    "is_a_mount": "mount the folder that it lies in instead of the file",
}


@contextmanager
def translate_os_errors(path: str) -> Generator[None]:
    """Turn every OSError of the block into a WorkspaceError that names ``path`` as the caller wrote it."""
    try:
        yield
    except OSError as error:
        code, message = _BY_ERRNO.get(error.errno or 0, ("io_failed", "`{path}`: {reason}"))
        text = message.format(path=path, reason=error.strerror or type(error).__name__)
        raise WorkspaceError(code, path, text, hint=_HINTS.get(code, "")) from error

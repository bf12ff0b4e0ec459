"""Files that an editor has open: what it shows of them counts, also before it is on the disk.

The workspace reads such a file as it would be if the editor saved it now, so that all its checks hold as they
are. A file whose buffer says what the disk says is the one on the disk, byte for byte.
"""

from __future__ import annotations

from typing import Protocol

from kakite.workspace.errors import WorkspaceError


class Buffers(Protocol):
    """An editor's files. Asked in worker threads; each answer takes a bounded time."""

    can_write: bool
    """Whether it takes new texts; without, a file with unsaved changes is not written."""
    is_paused: bool
    """Whether it is not to be asked now, and files are those on the disk."""

    def read(self, path: str) -> str:
        """Return the text of a file, by its absolute path, as the editor has it.

        Raises:
            WorkspaceError: ``buffer_failed``.
        """
        ...

    def write(self, path: str, text: str) -> None:
        """Give the editor the new text of a file.

        Raises:
            WorkspaceError: ``buffer_failed``.
        """
        ...


def make_buffer_error(path: str, told: str) -> WorkspaceError:
    """Return the error for an editor that refuses a file, or does not answer."""
    hint = "look at the file again before you repeat an edit; the person may have to look in the editor"
    return WorkspaceError("buffer_failed", path, f"the editor {told}", hint=hint)


def make_unsaved_error(path: str) -> WorkspaceError:
    """Return the error for a file that only the editor could change now."""
    told = f"`{path}` has changes in the person's editor that are not saved"
    return WorkspaceError(
        "buffer_unsaved", path, told, hint="nothing was changed; ask the person to save or to revert it"
    )


def is_text(data: bytes | None) -> bool:
    """Return whether an editor could have this open: what has NUL characters is none of its texts."""
    return data is not None and b"\0" not in data


def read_as_saved(buffers: Buffers, path: str, disk: bytes) -> bytes:
    """Return the content that the file would have if the editor saved it now.

    Raises:
        WorkspaceError: ``buffer_failed``.
    """
    return _encode(buffers.read(path), disk) if is_text(disk) else disk


def write_to_buffer(buffers: Buffers, path: str, before: bytes, after: bytes) -> bool:
    """Give the editor the new content; return false if the file is not ``before`` there any more.

    Raises:
        WorkspaceError: ``buffer_failed``.
    """
    shown = buffers.read(path)
    if _encode(shown, before) != before:
        return False
    text = decode(after, like=before)
    # Many editors keep line ends apart from the text, and then put them in themselves.
    buffers.write(path, text if "\r" in shown or "\n" not in shown else text.replace("\r\n", "\n"))
    return True


def decode(data: bytes, like: bytes = b"") -> str:
    """Return the text of a file's content, in the encoding of what it was before."""
    from kakite.edit import SourceText

    before = SourceText.from_bytes(like or data)
    try:
        return data.removeprefix(before.bom).decode(before.encoding)
    except UnicodeDecodeError:  # bytes that are no text, which the engine keeps
        return SourceText.from_bytes(data).text


def _encode(text: str, disk: bytes) -> bytes:
    """Return a text in the encoding and with the line ends of what is on the disk."""
    from kakite.edit import Change, ChangeSet, SourceText

    source = SourceText.from_bytes(disk)
    if _unify_line_ends(text) == _unify_line_ends(source.text):
        return disk
    if "\r" not in text and source.text.count("\r\n") * 2 > source.text.count("\n"):
        text = text.replace("\n", "\r\n")
    if source.encoding != "utf-8" or source.find_unencodable(text):
        # Which encoding an old file has is a guess, and the editor's may be another one.
        return text.encode("utf-8", errors="surrogatepass")
    whole = Change(0, len(source.text), text)
    return source.replace(ChangeSet.of(len(source.text), [whole])).to_bytes()


def _unify_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")

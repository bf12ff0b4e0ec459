"""Reads images for models. The type is detected from the bytes, whatever the name says."""

from __future__ import annotations

import base64

from kakite.tools.arguments import ToolError
from kakite.tools.toolset import Image
from kakite.workspace import File

MAX_BYTES = 3_750_000  # of one picture: models take 5 MB, in base64
_WEBP = 12  # bytes until its kind is said


def read_image(file: File, path: str) -> Image | None:
    """Return the picture that a file is; None if it is none, or of a kind that models do not take.

    Raises:
        ToolError: ``too_large``.
    """
    mime = detect_mime_type(file.data)
    if not mime:
        return None
    if len(file.data) > MAX_BYTES:
        raise ToolError(
            f"`{path}` is a picture of {len(file.data):,} bytes, and at most {MAX_BYTES:,} are shown",
            hint="make a smaller copy of it, and view that",
            code="too_large",
        )
    return Image(mime=mime, data=base64.b64encode(file.data).decode("ascii"))


def detect_mime_type(data: bytes) -> str:
    """Return what kind of picture begins like this, as a media type; empty if none that models take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:_WEBP] == b"WEBP" else ""

"""Names files by ``file://`` addresses."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote_to_bytes, urlsplit


def build_file_uri(path: str) -> str:
    """Return the address of an absolute path."""
    return "file://" + quote(os.fsencode(path))


def parse_file_uri(uri: str) -> str | None:
    """Return the absolute path that an address of this machine names; None if it names none."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    odd = parts.query or parts.fragment or parts.netloc not in {"", "localhost"}
    if parts.scheme != "file" or odd or not parts.path.startswith("/"):
        return None
    return os.fsdecode(unquote_to_bytes(parts.path))

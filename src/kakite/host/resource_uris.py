"""Gives the resources of several servers addresses that differ, and maps those back."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

READ_OPERATION = "resources/read"
"""By this name rules know the reading of a resource: MCP's name of the method."""

_PARENT = re.compile(r"(?:^|[/\\?#&=;])\.\.(?:$|[/\\?#&=;])")
_SCHEME = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:(?://)?)?)(.*)", re.DOTALL)
_HASHED = re.compile(r"-[0-9a-f]{8}\Z")
_ILLEGAL = re.compile(r"[^A-Za-z0-9-]")


def assign_labels(servers: Iterable[str]) -> Mapping[str, str]:
    """Return the server by the label that stands for it in addresses: lower-case letters, digits, dashes.

    It is the server's name where that says just this server, and does not look like one that ends with digits
    of a hash; else it ends with those of a hash of the name.
    """
    names = list(dict.fromkeys(servers))
    often = Counter(map(_make_label, names))
    return {_make_unique_label(name, often): name for name in names}


def _make_label(name: str) -> str:
    return _ILLEGAL.sub("-", name).lower()


def _make_unique_label(name: str, often: Counter[str]) -> str:
    label = _make_label(name)
    if often[label] == 1 and label == name.lower() and not _HASHED.search(label):
        return label
    return f"{label}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def add_label(label: str, uri: str) -> str:
    """Return a server's own address, or template of addresses, with the label first behind the scheme."""
    found = _SCHEME.fullmatch(uri)
    assert found
    return f"{found[1]}{label}/{found[2]}"


def split_label(uri: str) -> tuple[str, str]:
    """Return the label and the server's own address; of what ``add_label`` did not make, any two texts."""
    found = _SCHEME.fullmatch(uri)
    assert found
    label, _, rest = found[2].partition("/")
    return label.lower(), f"{found[1]}{rest}"


def has_parent_segment(uri: str) -> bool:
    """Return whether ``..`` in an address may lead out of where it seems to lie, however it is quoted."""
    plain = unquote(uri)
    while plain != uri:
        uri, plain = plain, unquote(plain)
    return any(not each.isprintable() for each in plain) or bool(_PARENT.search(plain))

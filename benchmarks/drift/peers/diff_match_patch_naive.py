"""diff-match-patch as a locator: the patch from SEARCH to REPLACE, applied to the file. Needs
``diff-match-patch``."""

from __future__ import annotations

from diff_match_patch import diff_match_patch
from lines import serve

DMP = diff_match_patch()


def replace(text: str, search: str, new: str) -> str | None:
    """Locate SEARCH by its start, and apply the patch there."""
    start = text.find(search)
    if start < 0:
        start = DMP.match_main(text, search[:32], 0)
    if start < 0:
        return None
    patches = DMP.patch_make(search, new)
    for patch in patches:
        patch.start1 += start
        patch.start2 += start
    result, applied = DMP.patch_apply(patches, text)
    return result if all(applied) else None


if __name__ == "__main__":
    serve(replace)

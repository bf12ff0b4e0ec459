"""What a strict tool does: one exact occurrence, or a refusal."""

from __future__ import annotations

from lines import serve


def replace(text: str, search: str, new: str) -> str | None:
    """Replace the only occurrence."""
    return text.replace(search, new) if text.count(search) == 1 else None


if __name__ == "__main__":
    serve(replace)

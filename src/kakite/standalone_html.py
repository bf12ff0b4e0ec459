"""Renders a whole HTML document that loads nothing, runs nothing and sends nothing. Pure."""

from __future__ import annotations

import base64
import hashlib


def render_standalone_page(title: str, style: str, body: str) -> str:
    """Return the document. ``title`` and ``body`` are HTML with escaped texts, ``style`` all of the CSS."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_build_policy(style)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _build_policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"

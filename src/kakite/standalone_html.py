"""Renders a whole HTML document that loads nothing, sends nothing and runs no script but its own. Pure."""

from __future__ import annotations

import base64
import hashlib


def render_standalone_page(title: str, style: str, body: str, script: str = "") -> str:
    """Return the document. ``title`` and ``body`` are HTML with escaped texts, ``style`` all of the CSS.

    Nothing runs in it but ``script``, at its end; without one, nothing at all.
    """
    if script:
        body = f"{body}\n<script>{script}</script>"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_build_policy(style, script)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _build_policy(style: str, script: str) -> str:
    runs = f" script-src {_compute_source(script)};" if script else ""
    return (
        f"default-src 'none'; style-src {_compute_source(style)};{runs} base-uri 'none'; form-action 'none'"
    )


def _compute_source(text: str) -> str:
    """Return what a policy calls this style or script, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

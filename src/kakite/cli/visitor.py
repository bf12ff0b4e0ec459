"""A person with a browser, for servers that want a login."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable, Mapping

from kakite.host.authorization import Page


class Browsing:
    """Tells the person the address of the page, and opens it where there is a display."""

    def __init__(self, tell: Callable[[str], None], environ: Mapping[str, str]) -> None:
        """``tell`` writes a line for the person, never to where results go."""
        self._tell = tell
        self._environ = environ

    async def visit(self, page: Page) -> None:
        """Show the page's host and address in full, and open it. What is opened is what is shown."""
        self._tell(f"`{page.server}` wants you to log in at {page.host}:")
        self._tell(f"  {page.address}")
        if self._has_display():
            await asyncio.to_thread(_open, page.address)

    def _has_display(self) -> bool:
        # Without one a browser would be a program in this terminal, which is not its to use.
        named = any(self._environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        return named or sys.platform in {"darwin", "win32"}


def _open(address: str) -> None:
    try:
        webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return  # the person has the address

"""Another process that uses what is remembered of a login: ``python logged_in.py URL FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx2

from kakite.host.config.model import HttpServer, ServerEntry, SourceLocation
from kakite.host.oauth.provider import create_auth


async def main(url: str, folder: Path) -> None:
    entry = ServerEntry(
        name="there", reached=HttpServer(url=url), origin=SourceLocation(file="", line=1, scope="user")
    )
    async with httpx2.AsyncClient(verify=False, auth=create_auth(entry, folder), timeout=60) as client:
        sys.stdout.write(str((await client.post(url, json={})).status_code))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

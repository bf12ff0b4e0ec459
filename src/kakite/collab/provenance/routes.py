"""Who wrote what, over HTTP."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import FastAPI, Request

from kakite.collab.auth.authorize import open_authorized
from kakite.collab.registry import DocumentRegistry, OpenDocument


def add_provenance(app: FastAPI, pages: DocumentRegistry) -> None:
    """Add the routes."""

    @app.get("/api/pages/{page:path}/authors")
    async def list_authors(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """The passages of the page with their authors, in the order of the text. Places in UTF-16 units."""
        return _to_json(await open_authorized(pages, request, page))


def _to_json(page: OpenDocument) -> dict[str, object]:
    text = str(page.text)
    passages = page.authors.list_passages()
    authors = list(dict.fromkeys(each.author for each in passages if each.author is not None))
    number = {author: at for at, author in enumerate(authors)}
    return {
        "page": page.name,
        "version": page.version,
        "authors": [asdict(each) for each in authors],
        "passages": [
            {
                "start": page.text.to_utf16(each.start),
                "end": page.text.to_utf16(each.end),
                "author": None if each.author is None else number[each.author],
                "text": text[each.start : each.end],
            }
            for each in passages
        ],
    }

"""Makes a message of the blocks of a prompt: text, pictures, links, files that the editor embeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import schema

from kakite.tools.toolset import Image

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def to_message_parts(blocks: Sequence[Any], project: Path) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the pictures of these blocks: links are named in the text."""
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                texts.append(block.text)
            case schema.ImageContentBlock():
                images.append(Image(mime=block.mime_type, data=block.data))
            case schema.ResourceContentBlock():
                texts.append(f"@{to_relative_path(block.uri, project)}")
            case schema.EmbeddedResourceContentBlock(resource=resource):
                _add_resource(resource, project, texts, images)
            case _:
                texts.append("[a sound, which this agent does not hear]")
    return _join(texts), tuple(images)


def to_relative_path(uri: str, project: Path) -> str:
    """Return the path in the project of a ``file:`` address; any other address as it is."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    try:
        return str(path.relative_to(project))
    except ValueError:
        return str(path)


def _add_resource(
    resource: schema.TextResourceContents | schema.BlobResourceContents,
    project: Path,
    texts: list[str],
    images: list[Image],
) -> None:
    name = to_relative_path(resource.uri, project)
    if isinstance(resource, schema.TextResourceContents):
        texts.append(f'\n\n<file path="{name}">\n{resource.text}\n</file>\n\n')
    elif resource.mime_type in _PICTURES:
        images.append(Image(mime=resource.mime_type, data=resource.blob))
    else:
        texts.append(f"[the file `{name}`, which is neither text nor a picture]")


def _join(texts: Sequence[str]) -> str:
    # Editors cut a sentence at each file that is named in it: the pieces belong together.
    return "".join(texts).strip()

from __future__ import annotations
from typing import Literal, TypedDict
from toolyard_runtime.tool import tool

class ContentItem(TypedDict):
    type: Literal["image", "audio"]
    data: str
    mimeType: str

class Resource(TypedDict):
    uri: str
    mimeType: str
    blob: str

class ResourceContentItem(TypedDict):
    type: Literal["resource"]
    resource: Resource

class ReadMediaFileResult(TypedDict):
    content: list[ContentItem | ResourceContentItem]

@tool("filesystem", "read_media_file")
async def read_media_file(path: str) -> ReadMediaFileResult:
    """Read an image, a sound or any other file as base64 with its media type.

    Args:
        path: Absolute, or relative to the workspace
    """
    ...

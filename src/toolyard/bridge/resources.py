"""Reads files that an MCP server near the client exposes as resources, such as `toolyard mcp` over HTTP.

The author of the server connects to it and passes the session; its answers are checked like those of a client.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Iterator
from typing import Protocol, TypeAlias, TypeVar

import anyio
import mcp_types as types
import pydantic
from mcp.shared.exceptions import MCPError

from toolyard.bridge.cache import NewFile
from toolyard.bridge.errors import (
    BadAnswerError,
    MissingFileError,
    PathRefusedError,
    ResourceRefusedError,
    printable_text,
)
from toolyard.bridge.listing_answers import MAX_LISTING_ENTRIES, ListingRequest, PathInfo
from toolyard.bridge.path_validator import PathValidator
from toolyard.core.errors import ValidationError
from toolyard.core.uris import path_to_uri, uri_to_path

T = TypeVar("T")

_NOT_FOUND = -32002
_Tree: TypeAlias = "dict[str, _Tree | int | None]"
"""Folders, and the sizes of files."""
_MAX_PAGES = 200


class ResourceReader(Protocol):
    """The subset of the SDK's `Client` that is used."""

    async def read_resource(self, uri: str) -> types.ReadResourceResult: ...

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult: ...


def file_uri(path: str) -> str:
    """Returns the file URI of an absolute POSIX or Windows path."""
    slashed = path.replace("\\", "/")
    return path_to_uri(slashed if slashed.startswith("/") else f"/{slashed}")


def file_path(uri: str) -> str | None:
    """Returns the POSIX or Windows path of a file URI; None for another kind of URI."""
    path = uri_to_path(uri)
    is_drive = path is not None and path[:1] == "/" and path[2:3] == ":" and path[1:2].isalpha()
    return path[1:] if path and is_drive else path or None


class ResourceFiles:
    """Lists and reads a client's files through another server's resources."""

    def __init__(self, reader: ResourceReader, validator: PathValidator, seconds: float) -> None:
        """`seconds` is the time limit for an answer of the server."""
        self._reader = reader
        self._validator = validator
        self._seconds = seconds

    async def read(self, path: str, max_bytes: int) -> NewFile:
        """Reads the file at a validated, absolute path."""
        result = await self._await_answer(self._reader.read_resource(file_uri(path)), path)
        if len(result.contents) != 1 or not self._names_path(path, str(result.contents[0].uri)):
            raise BadAnswerError(printable_text(path), "it is about something else")
        content = result.contents[0]
        is_binary = isinstance(content, types.BlobResourceContents)
        data = _decode_blob(content.blob, path) if is_binary else content.text.encode("utf-8", "surrogatepass")
        if len(data) > max_bytes:
            raise BadAnswerError(printable_text(path), f"it has more than {max_bytes:,} bytes")
        return NewFile(path, data, is_binary=is_binary)

    async def list(self, wanted: ListingRequest) -> list[PathInfo]:
        tree: _Tree = {}
        glob, base = wanted.glob(), self._validator.policy.relative(wanted.path)
        found = [each async for each in self._iter_files(wanted)]
        if not found:  # a folder exists only through its files
            raise MissingFileError(wanted.path)
        for path, size in found:
            names = tuple(self._validator.policy.relative(path).split("/"))
            inside = names[0 if base == "." else base.count("/") + 1 :]
            if glob is not None and not glob.matches(inside):
                continue
            _add_to_tree(tree, inside, size)
        return list(self._path_infos(tree, wanted.path, recursive=wanted.recursive, all_folders=glob is None))

    async def _iter_files(self, wanted: ListingRequest) -> AsyncGenerator[tuple[str, int | None]]:
        cursor, count = None, 0
        for _ in range(_MAX_PAGES):
            page = await self._await_answer(self._reader.list_resources(cursor=cursor), wanted.path)
            for resource in page.resources:
                path = self._path_inside(str(resource.uri), wanted.path)
                if path is None:
                    continue
                count += 1
                if count > MAX_LISTING_ENTRIES:
                    raise BadAnswerError(wanted.title, f"it has more than {MAX_LISTING_ENTRIES:,} entries")
                yield path, resource.size
            cursor = page.next_cursor
            if cursor is None:
                return
        raise BadAnswerError(wanted.title, f"it has more than {_MAX_PAGES} pages")

    async def _await_answer(self, request: Awaitable[T], path: str) -> T:
        try:
            with anyio.fail_after(self._seconds):
                return await request
        except TimeoutError:
            raise ResourceRefusedError(
                printable_text(path), f"there was no answer in {self._seconds:g} seconds"
            ) from None
        except MCPError as error:
            if error.error.code == _NOT_FOUND:
                raise MissingFileError(path) from None
            raise ResourceRefusedError(printable_text(path), printable_text(str(error))) from None
        except pydantic.ValidationError:
            raise BadAnswerError(printable_text(path), "it is not a valid answer to the request") from None

    def _names_path(self, path: str, uri: str) -> bool:
        """Whether a URI names that path, in any equivalent spelling."""
        named = file_path(uri)
        return named is not None and (named == path or self._validator.is_the_same(named, path))

    def _path_inside(self, uri: str, folder: str) -> str | None:
        """Returns the path of a resource if it is inside that folder and allowed."""
        named = file_path(uri)
        if named is None:
            return None
        try:
            path = self._validator.validate(named)
        except (PathRefusedError, ValidationError):
            return None  # other resources are ignored
        return path if self._validator.lies_in(path, folder) and path != folder else None

    def _path_infos(self, tree: _Tree, folder: str, *, recursive: bool, all_folders: bool) -> Iterator[PathInfo]:
        for name, below in sorted(tree.items()):
            path = self._validator.validate_child(folder, name)
            if not isinstance(below, dict):
                yield PathInfo(name, path, "file", below)
            elif recursive or all_folders:
                inner = self._path_infos(below, path, recursive=recursive, all_folders=all_folders)
                yield PathInfo(name, path, "directory", children=tuple(inner) if recursive else None)


def _add_to_tree(tree: _Tree, names: tuple[str, ...], size: int | None) -> None:
    for name in names[:-1]:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):  # a file of that name is also listed
            return
        tree = below
    tree.setdefault(names[-1], size)


def _decode_blob(blob: str, path: str) -> bytes:
    try:
        return base64.b64decode(blob, validate=True)
    except ValueError:
        raise BadAnswerError(printable_text(path), "it is not base64") from None

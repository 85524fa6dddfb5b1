"""The tool guide_cache_file, with which a client pushes files. A batch is checked completely before any is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from toolyard.bridge.cache import FileCache, NewFile
from toolyard.bridge.client import BridgeClient
from toolyard.bridge.errors import CacheRefusedError, PathRefusedError, printable_text
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.state import BridgeState
from toolyard.bridge.text_decoding import encode_content, from_base64
from toolyard.bridge.timestamps import Timestamp, refuse_bool
from toolyard.core.errors import FieldError, ValidationError

MAX_FILES = 10_000
_BASE64 = "base64"
_SHOWN_ERRORS = _SHOWN_FILES = 20
_Size = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(refuse_bool)]


class PushedFile(BaseModel):
    """A file as a client hands it over."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    path: Annotated[str, Field(description="Relative to the project, or absolute")]
    content: Annotated[str, Field(description="All of it: text, or base64")]
    encoding: Annotated[str, Field(description='What the file has, or "base64" for one that is no text')] = "utf-8"
    size: Annotated[_Size, Field(description="In bytes; content of another size is refused")] = None
    mtime: Annotated[Timestamp, Field(description="When it was changed: seconds since 1970, or ISO 8601")] = None
    target: Annotated[str | None, Field(description="Where it leads, if it is a link")] = None


class PushArguments(BaseModel):
    """One file, or several under `files`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    path: str | None = None
    content: str | None = None
    encoding: str = "utf-8"
    size: _Size = None
    mtime: Timestamp = None
    target: str | None = None
    files: list[PushedFile] | None = None

    def pushed_files(self) -> list[PushedFile]:
        """Returns the pushed files. Raises ValidationError."""
        alone = self.path is not None or self.content is not None
        if alone == (self.files is not None):
            raise ValidationError.of(
                "files", "send either path and content, or files", hint="Send exactly one of the two."
            )
        if self.files is not None:
            return self.files
        if self.path is None or self.content is None:
            field = "path" if self.path is None else "content"
            raise ValidationError.of(field, "is missing", hint="A file has a path and its content.")
        one = PushedFile(
            path=self.path,
            content=self.content,
            encoding=self.encoding,
            size=self.size,
            mtime=self.mtime,
            target=self.target,
        )
        return [one]


class CacheState(BaseModel):
    """The cache after it."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evictions: int


class Pushed(BaseModel):
    """What became of a push."""

    cached: int
    """How many files were taken."""
    bytes: int
    files: list[str]
    """The paths of the first of them, as the policy spells them."""
    for_reads: int
    """How many of them a read was waiting for."""
    cache: CacheState


def parse_arguments(raw: Any) -> PushArguments:
    """Parses the arguments of a push. Raises ValidationError."""
    try:
        return PushArguments.model_validate(raw)
    except pydantic.ValidationError as error:
        fields = tuple(
            FieldError(".".join(map(str, each["loc"])), each["msg"])
            for each in error.errors(include_url=False, include_input=False)[:_SHOWN_ERRORS]
        )
        first = fields[0]
        raise ValidationError(
            f"{first.field}: {first.error}", fields, hint="Send path and content, or a list of files."
        ) from None


async def push_files(raw: Any, client: BridgeClient, shared: BridgeState) -> Pushed:
    """Accepts the files that a client pushes: all of them, or none. Raises PathRefusedError or ValidationError."""
    with shared.auditor.operation("guide_cache_file", _pushed_paths(raw), client):
        try:
            files = await check_files(parse_arguments(raw).pushed_files(), client, shared)
        except PathRefusedError as error:
            shared.pending.record_refusal(client.identity, error)
            raise
        shared.cache.require_acceptable(files)
        waited, others = list[NewFile](), list[NewFile]()
        for file in files:
            (waited if shared.pending.waits_for(client.identity, file.path) else others).append(file)
        shared.pending.store_all(client.identity, waited)
        try:
            await shared.with_cache(lambda cache: cache.put_all(others, client=client.identity))
        except BaseException:
            shared.pending.discard_all(client.identity, waited)
            raise
    return Pushed(
        cached=len(files),
        bytes=sum(len(file.content) for file in files),
        files=[file.path for file in files[:_SHOWN_FILES]],
        for_reads=len(waited),
        cache=await shared.with_cache(_cache_state),
    )


def _pushed_paths(raw: Any) -> str:
    """Returns the paths of a push that is not validated yet, for the log."""
    given = cast("Mapping[str, object]", raw) if isinstance(raw, Mapping) else dict[str, object]()
    files = given.get("files")
    each = cast("list[object]", files) if isinstance(files, list) else [given]
    named = (cast("Mapping[str, object]", file) for file in each[:_SHOWN_FILES] if isinstance(file, Mapping))
    return ", ".join(path for file in named if isinstance(path := file.get("path"), str))


async def check_files(pushed: Sequence[PushedFile], client: BridgeClient, shared: BridgeState) -> list[NewFile]:
    """Validates all files of a push. Raises for the first that cannot be accepted."""
    if not pushed or len(pushed) > MAX_FILES:
        raise ValidationError.of(
            "files", f"must be between 1 and {MAX_FILES:,} files", hint="Send them in several calls."
        )
    paths = [await shared.validate_path(file.path, client) for file in pushed]
    if len(set(paths)) != len(paths):
        twice = Counter(paths).most_common(1)[0][0]
        raise ValidationError.of("files", f"{printable_text(twice)} appears twice", hint="Send each file once.")
    validator = PathValidator(shared.policy)
    for path, file in zip(paths, pushed, strict=True):
        if file.target is not None:
            validator.validate_link(path, file.target)
    return [_new_file(path, file, shared.file_bytes) for path, file in zip(paths, pushed, strict=True)]


def _new_file(path: str, file: PushedFile, max_bytes: int) -> NewFile:
    is_binary = file.encoding.lower() == _BASE64
    data, encoding = (
        (from_base64(file.content), _BASE64) if is_binary else encode_content(file.content, file.encoding)
    )
    if len(data) > max_bytes:
        raise CacheRefusedError(path, f"has {len(data):,} bytes; at most {max_bytes:,} are taken")
    if file.size is not None and file.size != len(data):
        raise ValidationError.of(
            "size",
            f"{printable_text(path)} has {file.size:,} bytes, but {len(data):,} arrived: it was truncated or altered",
            hint="Send the complete file unchanged; if it is not plain text, as base64.",
        )
    return NewFile(path, data, file.mtime, "utf-8" if is_binary else encoding, is_binary)


def _cache_state(cache: FileCache) -> CacheState:
    now = cache.statistics
    return CacheState(entries=now.entries, bytes=now.bytes, hits=now.hits, misses=now.misses, evictions=now.evictions)

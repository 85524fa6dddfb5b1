"""guide_cache_file: a client hands files over. All of a batch is checked before any of it is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from toolyard.bridge.cache import FileCache, NewFile
from toolyard.bridge.client import Client
from toolyard.bridge.errors import CacheRefusedError, PathRefusedError, spelled
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.state import Shared
from toolyard.bridge.text_decoding import bytes_of, from_base64
from toolyard.bridge.timestamps import Timestamp, refuse_bool
from toolyard.core.errors import FieldError, ValidationError

MOST_FILES = 10_000
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

    def pushed(self) -> list[PushedFile]:
        """What is handed over. Raises ValidationError."""
        alone = self.path is not None or self.content is not None
        if alone == (self.files is not None):
            raise ValidationError.of(
                "files", "send either path and content, or files", hint="One file, or a batch: not both, not neither."
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


def arguments_of(raw: Any) -> PushArguments:
    """Raises ValidationError."""
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


async def push(raw: Any, client: Client, shared: Shared) -> Pushed:
    """Take what a client hands over: all of it, or nothing. Raises PathRefusedError or ValidationError."""
    with shared.auditor.operation("guide_cache_file", _named(raw), client):
        try:
            files = await checked(arguments_of(raw).pushed(), client, shared)
        except PathRefusedError as error:
            shared.pending.refuse(client.identity, error)
            raise
        shared.cache.require_acceptable(files)
        waited, others = list[NewFile](), list[NewFile]()
        for file in files:
            (waited if shared.pending.waits_for(client.identity, file.path) else others).append(file)
        shared.pending.keep_all(client.identity, waited)
        try:
            await shared.with_cache(lambda cache: cache.put_all(others, client=client.identity))
        except BaseException:
            shared.pending.forget_all(client.identity, waited)
            raise
    return Pushed(
        cached=len(files),
        bytes=sum(len(file.content) for file in files),
        files=[file.path for file in files[:_SHOWN_FILES]],
        for_reads=len(waited),
        cache=await shared.with_cache(_state),
    )


def _named(raw: Any) -> str:
    """What a push is about, as far as it says so."""
    given = cast("Mapping[str, object]", raw) if isinstance(raw, Mapping) else dict[str, object]()
    files = given.get("files")
    each = cast("list[object]", files) if isinstance(files, list) else [given]
    named = (cast("Mapping[str, object]", file) for file in each[:_SHOWN_FILES] if isinstance(file, Mapping))
    return ", ".join(path for file in named if isinstance(path := file.get("path"), str))


async def checked(pushed: Sequence[PushedFile], client: Client, shared: Shared) -> list[NewFile]:
    """Every file of a push. Raises for the first that cannot be taken."""
    if not pushed or len(pushed) > MOST_FILES:
        raise ValidationError.of(
            "files", f"are none, or more than {MOST_FILES:,}", hint="Send them in several calls."
        )
    paths = [await shared.validated(file.path, client) for file in pushed]
    if len(set(paths)) != len(paths):
        twice = Counter(paths).most_common(1)[0][0]
        raise ValidationError.of("files", f"{spelled(twice)} is there twice", hint="Send each file once.")
    validator = PathValidator(shared.policy)
    for path, file in zip(paths, pushed, strict=True):
        if file.target is not None:
            validator.validate_link(path, file.target)
    return [_new(path, file, shared.file_bytes) for path, file in zip(paths, pushed, strict=True)]


def _new(path: str, file: PushedFile, most: int) -> NewFile:
    is_binary = file.encoding.lower() == _BASE64
    data, encoding = (from_base64(file.content), _BASE64) if is_binary else bytes_of(file.content, file.encoding)
    if len(data) > most:
        raise CacheRefusedError(path, f"has {len(data):,} bytes; at most {most:,} are taken")
    if file.size is not None and file.size != len(data):
        raise ValidationError.of(
            "size",
            f"{spelled(path)} has {file.size:,} bytes, and {len(data):,} came: it was cut, or changed on the way",
            hint="Send all of the file as it is; what is no plain text, as base64.",
        )
    return NewFile(path, data, file.mtime, "utf-8" if is_binary else encoding, is_binary)


def _state(cache: FileCache) -> CacheState:
    now = cache.statistics
    return CacheState(entries=now.entries, bytes=now.bytes, hits=now.hits, misses=now.misses, evictions=now.evictions)

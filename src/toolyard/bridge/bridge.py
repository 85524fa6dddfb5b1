"""FilesystemBridge: the files of the client behind one request.

Each is looked for where it is nearest: on the disk, where server and client share one; in the cache, where the client
has handed it over; among the resources of a server beside the client; and last by asking the client's model, by MCP
sampling. A client that cannot be asked is told so at once, with the ways that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, overload

from anyio import to_thread

from toolyard.bridge.answers import read_receipt
from toolyard.bridge.cache import CachedFile, FileCache, NewFile
from toolyard.bridge.client import Answer, Client
from toolyard.bridge.decoding import text_of
from toolyard.bridge.errors import (
    BadAnswerError,
    MissingFileError,
    ResourceRefusedError,
    SamplingUnsupportedError,
    spelled,
)
from toolyard.bridge.listing import PathInfo, Wanted, read_listing
from toolyard.bridge.pushing import arguments_of, checked
from toolyard.bridge.requests import Question, listing_question, reading_question
from toolyard.bridge.resources import ResourceFiles, ResourceReader
from toolyard.bridge.validating import PathValidator
from toolyard.core.errors import ToolyardError, ValidationError

if TYPE_CHECKING:
    from toolyard.bridge.shared import Shared

_FOUND = CachedFile | NewFile
_NUL = "\0"
_MOST_NAMED = 20


class FilesystemBridge:
    """The files of one client. Every method may raise a `ToolyardError`, each with a code and what to do next."""

    def __init__(self, client: Client, shared: Shared, resources: ResourceReader | None = None) -> None:
        """`BridgeHost.bridge` makes one for each request. `resources` is a session with a server beside a client."""
        self._client = client
        self._shared = shared
        self._resources = resources

    async def list_directory(self, path: str, recursive: bool = False, pattern: str | None = None) -> list[PathInfo]:
        """What a folder holds; with `recursive` each folder has its `children`. `pattern` is a glob.

        Raises PathRefusedError, MissingFileError, UnreadableFileError, BadAnswerError, SamplingTimeoutError,
        SamplingRefusedError or SamplingUnsupportedError.
        """
        with self._shared.auditor.operation("list_directory", path, self._client):
            wanted = Wanted(await self._shared.validated(path, self._client), recursive, pattern)
            wanted.glob()
            found = await self._listed(wanted)
            await self._shared.with_cache(lambda cache: self._notice(cache, found))
        for each in (each for entry in found for each in entry.walk() if each.refused is not None):
            self._shared.auditor.refused_entry("list_directory", each.path or each.name, each.refused, self._client)
        return found

    @overload
    async def read_file(self, path: str, encoding: str | None = None, binary: Literal[False] = False) -> str: ...

    @overload
    async def read_file(self, path: str, encoding: str | None = None, *, binary: Literal[True]) -> bytes: ...

    @overload
    async def read_file(self, path: str, encoding: str | None, binary: Literal[True]) -> bytes: ...

    async def read_file(self, path: str, encoding: str | None = None, binary: bool = False) -> str | bytes:
        """A file's text, or its bytes with `binary`.

        `encoding` is tried first; where it does not fit, the one that the client named, then whatever does. Raises as
        `list_directory` does.
        """
        [file] = await self._read([path], encoding, is_binary=binary)
        return file.content if binary else _text(file, encoding)

    async def read_files(self, paths: Sequence[str], encoding: str | None = None) -> dict[str, str]:
        """The texts of several files, by the paths as given. What has to be asked for is asked for at once."""
        files = await self._read(paths, encoding, is_binary=False)
        return {path: _text(file, encoding) for path, file in zip(paths, files, strict=True)}

    async def _read(self, paths: Sequence[str], encoding: str | None, *, is_binary: bool) -> list[_FOUND]:
        with self._shared.auditor.operation("read_file", ", ".join(paths), self._client):
            if encoding is not None:
                text_of(b"", encoding, encoding)  # raises for one that is none, before anybody is asked
            spellings = [await self._shared.validated(path, self._client) for path in paths]
            if len(set(spellings)) != len(paths):
                raise ValidationError.of("paths", "one is there twice", hint="Name each file once.")
            found = {path: await self._near(path, encoding, is_binary=is_binary) for path in spellings}
            missing = [path for path, file in found.items() if file is None]
            if missing:
                asked = await self._asked(missing, encoding, is_binary=is_binary)
                found |= dict(zip(missing, asked, strict=True))
            return [file for path in spellings if (file := found[path]) is not None]

    async def _near(self, path: str, encoding: str | None, *, is_binary: bool) -> _FOUND | None:
        """A file that can be had without asking the client's model."""
        shared = self._shared
        if shared.disk:
            local = await self._on_disk(path)
            if local is not None:
                return local
        exposed = await self._as_resource(path)
        if isinstance(exposed, NewFile):
            return exposed
        if self._client.has_answered(self._question(path, encoding, is_binary=is_binary)):
            return None  # what the client was asked for in this call is taken as its answer says
        cached = await shared.with_cache(lambda cache: cache.get(path, client=self._client.identity))
        if cached is None and exposed is not None:
            raise exposed
        return cached

    async def _as_resource(self, path: str) -> NewFile | ToolyardError | None:
        """What the server beside the client gives; why it gives nothing; None where there is no such server."""
        policy = await self._shared.rooted(self._client) if self._resources is not None else self._shared.policy
        if self._resources is None or policy.project_root is None:  # a URI needs the whole path
            return None
        validator = PathValidator(policy)
        try:
            resources = ResourceFiles(self._resources, validator, self._shared.seconds)
            return await resources.read(validator.validate(path), self._shared.file_bytes)
        except (MissingFileError, ResourceRefusedError) as error:
            return error

    async def _on_disk(self, path: str) -> NewFile | None:
        policy = await self._shared.rooted(self._client)

        def read() -> NewFile | None:
            with self._shared.disk.opened(policy) as folder:
                if folder is None:
                    return None
                spelled_here = PathValidator(policy).validate(path)
                return folder.read(spelled_here, self._shared.file_bytes)

        return await to_thread.run_sync(read)

    async def _listed(self, wanted: Wanted) -> list[PathInfo]:
        if self._shared.disk:
            local = await self._listed_on_disk(wanted)
            if local is not None:
                return local
        policy = await self._shared.rooted(self._client) if self._resources is not None else self._shared.policy
        if self._resources is not None and policy.project_root is not None:
            validator = PathValidator(policy)
            resources = ResourceFiles(self._resources, validator, self._shared.seconds)
            return await resources.list(replace(wanted, path=validator.validate(wanted.path)))
        question = listing_question(wanted)
        self._require_sampling([question])
        [answer] = await self._client.ask([question], self._shared.seconds)
        _require_whole(answer, question)
        # It may be long, and take its time.
        return await to_thread.run_sync(read_listing, answer.text, wanted, PathValidator(self._shared.policy))

    async def _listed_on_disk(self, wanted: Wanted) -> list[PathInfo] | None:
        policy = await self._shared.rooted(self._client)

        def listed() -> list[PathInfo] | None:
            with self._shared.disk.opened(policy) as folder:
                if folder is None:
                    return None
                path = PathValidator(policy).validate(wanted.path)
                return folder.list(replace(wanted, path=path))

        return await to_thread.run_sync(listed)

    def _notice(self, cache: FileCache, entries: Sequence[PathInfo]) -> None:
        """A file that was changed since it was cached is not served from there any more."""
        for each in (each for entry in entries for each in entry.walk()):
            if each.type == "file" and each.mtime is not None and each.path:
                cache.noticed(each.path, each.mtime, client=self._client.identity)

    async def _asked(self, paths: Sequence[str], encoding: str | None, *, is_binary: bool) -> list[_FOUND]:
        """Files that the client's model is asked for. They are cached when all have come."""
        questions = [self._question(path, encoding, is_binary=is_binary) for path in paths]
        self._require_sampling(questions)
        identity, shared = self._client.identity, self._shared
        with shared.pending.expecting(identity, paths, shared.seconds):
            answers = await self._client.ask(questions, shared.seconds)
            files = [
                await self._handed_over(question, answer) for question, answer in zip(questions, answers, strict=True)
            ]
        fresh = [file for file in files if isinstance(file, NewFile)]
        await shared.with_cache(lambda cache: cache.put_all(fresh, client=identity))
        return files

    async def _handed_over(self, question: Question, answer: Answer) -> _FOUND:
        _require_whole(answer, question)
        if answer.handed_over:
            return await self._in_answer(question, answer)
        read_receipt(answer.text, question.path, question.title)
        pushed = self._shared.pending.take(self._client.identity, question.path, answer.asked)
        if pushed is not None:
            return pushed
        # Handed over to another process that serves this client, into the cache that they share.
        cached = await self._shared.with_cache(lambda cache: cache.peek(question.path, client=self._client.identity))
        if cached is None or cached.stored < answer.asked:
            raise BadAnswerError(question.title, "it says that the file was handed over, and it was not")
        return cached

    async def _in_answer(self, question: Question, answer: Answer) -> NewFile:
        """The file in an answer that is itself a call of guide_cache_file."""
        try:
            pushed = [file for call in answer.handed_over for file in arguments_of(call).pushed()]
            files = await checked(pushed, self._client, self._shared)
        except ValidationError as error:
            raise BadAnswerError(question.title, error.message) from error
        if [file.path for file in files] != [question.path]:
            raise BadAnswerError(question.title, "it hands over something else than was asked for")
        return files[0]

    def _question(self, path: str, encoding: str | None, *, is_binary: bool) -> Question:
        return reading_question(path, encoding, is_binary=is_binary, with_tools=self._client.can_use_tools)

    def _require_sampling(self, questions: Sequence[Question]) -> None:
        if self._client.can_sample:
            return
        first = questions[0]
        if first.is_handed_over:
            ways = ["have the agent push what is missing with the tool guide_cache_file, all in one call"]
        else:
            ways = ["ask for files by their names, which the agent can push with the tool guide_cache_file"]
        has_root = self._shared.policy.project_root is not None
        rooted = "" if has_root or self._client.offers_roots else ", and tell SecurityPolicy the project's root"
        ways.append(f"share the disk with BridgeHost(shared_disk=[...]), where both are on one machine{rooted}")
        ways.append(f"read the resources of an MCP server beside the client, such as `toolyard mcp`{rooted}")
        names = [question.title for question in questions[:_MOST_NAMED]]
        more = f" and {len(questions) - len(names)} more" if len(questions) > len(names) else ""
        raise SamplingUnsupportedError(f"{', '.join(names)}{more}", hint=f"Instead: {'; '.join(ways)}.")


def _require_whole(answer: Answer, question: Question) -> None:
    if answer.is_cut:
        raise BadAnswerError(question.title, "it was cut: the model had said as much as it may")


def _text(file: _FOUND, encoding: str | None) -> str:
    # Text was handed over as text: what its bytes are in is known, whatever encoding somebody has in mind.
    text, _ = text_of(file.content, encoding if file.is_binary else None, file.encoding)
    if _NUL in text:
        raise ValidationError.of("binary", f"{spelled(file.path)} is no text", hint="Read it with binary=True.")
    return text

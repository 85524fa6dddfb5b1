"""FilesystemBridge: access to the files of the client behind one request.

A file is searched in the nearest place first: on a disk that server and client share, among the resources of a server
near the client, in the cache of files that the client has pushed, and last by asking the client's model through MCP
sampling. A cached file is compared with the client's after a few seconds. If the client does not support sampling,
the error immediately names the remaining alternatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, overload

from anyio import to_thread

from toolyard.bridge.cache import CachedFile, FileCache, NewFile
from toolyard.bridge.client import BridgeClient, SamplingAnswer
from toolyard.bridge.errors import (
    BadAnswerError,
    MissingFileError,
    ResourceRefusedError,
    SamplingUnsupportedError,
    UnreadableFileError,
    printable_text,
)
from toolyard.bridge.freshness import is_changed
from toolyard.bridge.listing_answers import ListingRequest, PathInfo, read_listing
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.push_tool import check_files, parse_arguments
from toolyard.bridge.resources import ResourceFiles, ResourceReader
from toolyard.bridge.sampling_answers import read_receipt, read_status
from toolyard.bridge.sampling_prompts import (
    PUSH_TOOL_NAME,
    SamplingQuestion,
    listing_question,
    reading_question,
    status_question,
)
from toolyard.bridge.text_decoding import decode_content
from toolyard.core.errors import ToolyardError, ValidationError

if TYPE_CHECKING:
    from toolyard.bridge.state import BridgeState

_FileContent = CachedFile | NewFile
_NUL = "\0"
_MAX_NAMED = 20
_PUSH_HINT = (
    f"Call the tool {PUSH_TOOL_NAME} with the current content of what is missing, all in one call, "
    "and repeat this call."
)
_PUSH_INSTEAD_HINT = (
    f"Name the files you need instead of the folder, push them with the tool {PUSH_TOOL_NAME}, and repeat this call."
)


class FilesystemBridge:
    """Access to the files of one client. `BridgeHost.bridge` creates one per request.

    Raises:
        ToolyardError: Every method may raise one, with a code and a hint: a forbidden path, a missing file, a client
            that cannot be asked.

    Example:
        ```python
        bridge = host.bridge(ctx)
        for entry in await bridge.list_directory("src", pattern="*.py"):
            text = await bridge.read_file(entry.path)
        ```

    """

    def __init__(self, client: BridgeClient, shared: BridgeState, resources: ResourceReader | None = None) -> None:
        """`BridgeHost.bridge` creates one per request. `resources` is a session with a server near the client."""
        self._client = client
        self._shared = shared
        self._resources = resources

    async def list_directory(self, path: str, recursive: bool = False, pattern: str | None = None) -> list[PathInfo]:
        """Lists a folder; with `recursive`, each folder has its `children`. `pattern` is a glob.

        Raises PathRefusedError, MissingFileError, UnreadableFileError, BadAnswerError, SamplingTimeoutError,
        SamplingRefusedError or SamplingUnsupportedError.
        """
        with self._shared.auditor.operation("list_directory", path, self._client):
            wanted = ListingRequest(await self._shared.validate_path(path, self._client), recursive, pattern)
            wanted.glob()
            found = await self._list_entries(wanted)
            await self._shared.with_cache(lambda cache: self._drop_changed(cache, found))
        for each in (each for entry in found for each in entry.walk() if each.refused is not None):
            self._shared.auditor.report_refused_entry(
                "list_directory", each.path or each.name, each.refused, self._client
            )
        return found

    @overload
    async def read_file(
        self, path: str, encoding: str | None = None, binary: Literal[False] = False, *, fresh: bool = False
    ) -> str: ...

    @overload
    async def read_file(
        self, path: str, encoding: str | None = None, *, binary: Literal[True], fresh: bool = False
    ) -> bytes: ...

    @overload
    async def read_file(
        self, path: str, encoding: str | None, binary: Literal[True], *, fresh: bool = False
    ) -> bytes: ...

    async def read_file(
        self, path: str, encoding: str | None = None, binary: bool = False, *, fresh: bool = False
    ) -> str | bytes:
        """Returns a file's text, or its bytes with `binary`.

        `encoding` is tried first, then the one that the client named, then a guess. With `fresh`, nothing is taken
        from the cache, except what a client without sampling has pushed in the last minute. Raises the same errors as
        `list_directory`.
        """
        [file] = await self._read_all([path], encoding, is_binary=binary, fresh=fresh)
        return file.content if binary else _decode_text(file, encoding)

    async def read_files(
        self, paths: Sequence[str], encoding: str | None = None, *, fresh: bool = False
    ) -> dict[str, str]:
        """Returns the texts of several files by their given paths. Missing ones are requested concurrently."""
        files = await self._read_all(paths, encoding, is_binary=False, fresh=fresh)
        return {path: _decode_text(file, encoding) for path, file in zip(paths, files, strict=True)}

    async def _read_all(
        self, paths: Sequence[str], encoding: str | None, *, is_binary: bool, fresh: bool
    ) -> list[_FileContent]:
        with self._shared.auditor.operation("read_file", ", ".join(paths), self._client):
            if encoding is not None:
                decode_content(b"", encoding, encoding)  # raises for an unknown encoding, before the client is asked
            spellings = [await self._shared.validate_path(path, self._client) for path in paths]
            if len(set(spellings)) != len(paths):
                raise ValidationError.of("paths", "a file is named twice", hint="Name each file once.")
            found = {path: await self._find_without_asking(path, encoding, is_binary=is_binary) for path in spellings}
            outdated = await self._outdated_paths(
                [file for file in found.values() if isinstance(file, CachedFile)], fresh
            )
            missing = [path for path, file in found.items() if file is None or path in outdated]
            if missing:
                asked = await self._ask_for_files(missing, encoding, is_binary=is_binary)
                found |= dict(zip(missing, asked, strict=True))
            return [file for path in spellings if (file := found[path]) is not None]

    async def _outdated_paths(self, files: Sequence[CachedFile], fresh: bool) -> set[str]:
        """Returns the paths of the cached files that must not be used."""
        client, freshness = self._client, self._shared.freshness
        if not client.can_sample:
            return {file.path for file in files if freshness.is_too_old(file, fresh=fresh)}
        if fresh:
            return {file.path for file in files}
        return await self._changed_paths([file for file in files if freshness.needs_check(client.identity, file)])

    async def _changed_paths(self, files: Sequence[CachedFile]) -> set[str]:
        """Asks the client which files have changed. A deleted file is dropped from the cache and raises."""
        questions = [status_question(file.path) for file in files]
        answers = await self._client.ask(questions, self._shared.seconds) if questions else []
        changed: set[str] = set()
        for file, question, answer in zip(files, questions, answers, strict=True):
            try:
                _require_usable(answer, question)
                is_same = not is_changed(file, read_status(answer.text, file.path, question.title))
            except BadAnswerError:
                is_same = False  # the file itself is requested instead
            except (MissingFileError, UnreadableFileError):
                await self._invalidate(file)
                raise
            if is_same:
                self._shared.freshness.record_check(self._client.identity, file.path)
            else:
                await self._invalidate(file)
                changed.add(file.path)
        return changed

    async def _invalidate(self, file: CachedFile) -> None:
        identity = self._client.identity
        await self._shared.with_cache(lambda cache: cache.invalidate(file.path, client=identity))

    async def _find_without_asking(self, path: str, encoding: str | None, *, is_binary: bool) -> _FileContent | None:
        """Returns a file that is available without asking the client's model, or None."""
        shared = self._shared
        if shared.disk:
            local = await self._read_from_disk(path)
            if local is not None:
                return local
        exposed = await self._read_resource(path)
        if isinstance(exposed, NewFile):
            return exposed
        if self._client.has_answered(self._read_question(path, encoding, is_binary=is_binary)):
            return None  # the client was asked for it in this call, and its answer decides
        cached = await shared.with_cache(lambda cache: cache.get(path, client=self._client.identity))
        if cached is None and exposed is not None:
            raise exposed
        return cached

    async def _read_resource(self, path: str) -> NewFile | ToolyardError | None:
        """Returns the file or the error of the resource server; None if there is no such server."""
        policy = (
            await self._shared.policy_with_root(self._client) if self._resources is not None else self._shared.policy
        )
        if self._resources is None or policy.project_root is None:  # a URI needs the whole path
            return None
        validator = PathValidator(policy)
        try:
            resources = ResourceFiles(self._resources, validator, self._shared.seconds)
            return await resources.read(validator.validate(path), self._shared.file_bytes)
        except (MissingFileError, ResourceRefusedError) as error:
            return error

    async def _read_from_disk(self, path: str) -> NewFile | None:
        policy = await self._shared.policy_with_root(self._client)

        def read() -> NewFile | None:
            with self._shared.disk.open_folder(policy) as folder:
                if folder is None:
                    return None
                spelled_here = PathValidator(policy).validate(path)
                return folder.read(spelled_here, self._shared.file_bytes)

        return await to_thread.run_sync(read)

    async def _list_entries(self, wanted: ListingRequest) -> list[PathInfo]:
        if self._shared.disk:
            local = await self._list_from_disk(wanted)
            if local is not None:
                return local
        policy = (
            await self._shared.policy_with_root(self._client) if self._resources is not None else self._shared.policy
        )
        if self._resources is not None and policy.project_root is not None:
            validator = PathValidator(policy)
            resources = ResourceFiles(self._resources, validator, self._shared.seconds)
            return await resources.list(replace(wanted, path=validator.validate(wanted.path)))
        question = listing_question(wanted)
        self._require_sampling([question])
        try:
            return await self._list_by_asking(question, wanted)
        except BadAnswerError as error:
            return await self._list_by_asking(question.repeat_after(error.why), wanted)

    async def _list_by_asking(self, question: SamplingQuestion, wanted: ListingRequest) -> list[PathInfo]:
        [answer] = await self._client.ask([question], self._shared.seconds)
        _require_usable(answer, question)
        # In a thread, because parsing a long listing takes a while.
        return await to_thread.run_sync(read_listing, answer.text, wanted, PathValidator(self._shared.policy))

    async def _list_from_disk(self, wanted: ListingRequest) -> list[PathInfo] | None:
        policy = await self._shared.policy_with_root(self._client)

        def list_folder() -> list[PathInfo] | None:
            with self._shared.disk.open_folder(policy) as folder:
                if folder is None:
                    return None
                path = PathValidator(policy).validate(wanted.path)
                return folder.list(replace(wanted, path=path))

        return await to_thread.run_sync(list_folder)

    def _drop_changed(self, cache: FileCache, entries: Sequence[PathInfo]) -> None:
        """Drops cached files that the listing shows as changed."""
        for each in (each for entry in entries for each in entry.walk()):
            if each.type == "file" and each.mtime is not None and each.path:
                cache.drop_if_older(each.path, each.mtime, client=self._client.identity)

    async def _ask_for_files(
        self, paths: Sequence[str], encoding: str | None, *, is_binary: bool
    ) -> list[_FileContent]:
        """Asks the client's model for files and caches them once all have arrived."""
        questions = [self._read_question(path, encoding, is_binary=is_binary) for path in paths]
        self._require_sampling(questions)
        identity, shared = self._client.identity, self._shared
        with shared.pending.expect_files(identity, paths, shared.seconds):
            collected = await self._collect_answers(questions)
            if bad := {path: error for path, error in collected.items() if isinstance(error, BadAnswerError)}:
                again = [
                    question.repeat_after(bad[question.path].why) for question in questions if question.path in bad
                ]
                collected |= await self._collect_answers(again)
        files: list[_FileContent] = []
        for path in paths:
            if isinstance(file := collected[path], BadAnswerError):
                raise file
            files.append(file)
        fresh = [file for file in files if isinstance(file, NewFile)]
        await shared.with_cache(lambda cache: cache.put_all(fresh, client=identity))
        return files

    async def _collect_answers(
        self, questions: Sequence[SamplingQuestion]
    ) -> dict[str, _FileContent | BadAnswerError]:
        """Returns the files by path; for an unusable answer, the error."""
        answers = await self._client.ask(questions, self._shared.seconds)
        collected: dict[str, _FileContent | BadAnswerError] = {}
        for question, answer in zip(questions, answers, strict=True):
            try:
                collected[question.path] = await self._file_for_answer(question, answer)
            except BadAnswerError as error:
                collected[question.path] = error
        return collected

    async def _file_for_answer(self, question: SamplingQuestion, answer: SamplingAnswer) -> _FileContent:
        if answer.pushed_calls and not answer.problem:
            return await self._file_in_answer(question, answer)
        identity, path = self._client.identity, question.path
        # A file that was pushed and accepted counts, whatever the model answers afterwards.
        if (pushed := self._shared.pending.received_file(identity, path, answer.asked_at)) is not None:
            return pushed
        if (refusal := self._shared.pending.refusal(identity, path)) is not None:
            raise refusal
        # It may have been pushed to another process that serves this client and shares the cache.
        cached = await self._shared.with_cache(lambda cache: cache.peek(path, client=identity))
        if cached is not None and cached.stored >= answer.asked_at:
            return cached
        _require_usable(answer, question)
        read_receipt(answer.text, path, question.title)
        raise BadAnswerError(
            question.title, f"it says that the file was pushed with {PUSH_TOOL_NAME}, but it was not"
        )

    async def _file_in_answer(self, question: SamplingQuestion, answer: SamplingAnswer) -> NewFile:
        """Returns the file from an answer that is itself a call of guide_cache_file."""
        try:
            pushed = [file for call in answer.pushed_calls for file in parse_arguments(call).pushed_files()]
            files = await check_files(pushed, self._client, self._shared)
        except ValidationError as error:
            raise BadAnswerError(question.title, error.message) from error
        if [file.path for file in files] != [question.path]:
            raise BadAnswerError(question.title, "it pushes something other than what was requested")
        return files[0]

    def _read_question(self, path: str, encoding: str | None, *, is_binary: bool) -> SamplingQuestion:
        return reading_question(path, encoding, is_binary=is_binary, with_tools=self._client.can_use_tools)

    def _require_sampling(self, questions: Sequence[SamplingQuestion]) -> None:
        if self._client.can_sample:
            return
        names = [question.title for question in questions[:_MAX_NAMED]]
        more = f" and {len(questions) - len(names)} more" if len(questions) > len(names) else ""
        rooted = ""
        if self._shared.policy.project_root is None and not self._client.offers_roots:
            rooted = ", and give SecurityPolicy the project's root"
        raise SamplingUnsupportedError(
            f"{', '.join(names)}{more}",
            hint=_PUSH_HINT if questions[0].expects_push else _PUSH_INSTEAD_HINT,
            for_author=f"Where server and client share a machine, use BridgeHost(shared_disk=[...]){rooted}. Where "
            f"an MCP server beside the client exposes its files, as `toolyard mcp` does, pass a client of it: "
            f"host.bridge(ctx, resources=client){rooted}. Take names of files as arguments, not of folders alone: "
            f"agents can push files with {PUSH_TOOL_NAME}, and not listings.",
        )


def _require_usable(answer: SamplingAnswer, question: SamplingQuestion) -> None:
    if answer.problem:
        raise BadAnswerError(question.title, answer.problem)


def _decode_text(file: _FileContent, encoding: str | None) -> str:
    # Text was pushed as text, so the encoding of its bytes is known, whatever encoding the caller names.
    text, _ = decode_content(file.content, encoding if file.is_binary else None, file.encoding)
    if _NUL in text:
        raise ValidationError.of(
            "binary", f"{printable_text(file.path)} is not text", hint="Read it with binary=True."
        )
    return text

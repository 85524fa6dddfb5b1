"""Reads the files and folders that a request names.

Named files come first, in their order, then the files of named folders: source, tests, settings, documents, the rest.
A wrong name is an error, and all wrong names are reported together; a problem with a file found in a folder is a
reason to skip it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from toolyard.assistant.files.file_text import OMITTED_FILE_NOTICE, read_source, skip_reason
from toolyard.assistant.files.folder_scan import ScannedFile, scan_folder
from toolyard.assistant.files.languages import file_rank
from toolyard.assistant.files.not_found import missing_file_message
from toolyard.assistant.files.not_readable import refusal_error
from toolyard.assistant.files.sources import SkippedFile, SourceFile
from toolyard.config.assistant import AssistantLimits
from toolyard.core.actions import Kind
from toolyard.core.errors import FieldError, SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import MIB
from toolyard.dispatch.call_context import CallContext
from toolyard.files.mounts import Target
from toolyard.files.os_errors import not_a_file_error, printable_name

_MOST_SCANNED = 400
"""Files of folders that are read, whole or for their outlines."""
_MOST_BYTES = 64 * MIB
"""Total size of all files: many times what any model can take."""
_MOST_SKIPPED = 100
"""Skipped files of folders that are reported individually; of the rest, only the number is."""
_LINK_OUT = "is a link that leads out of the workspace; links are not followed"
_CHANGED_SECRETS = (
    "has the name of a file for secrets, and has changed since it was shown; ask the user before you name it again"
)


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files to send, and those that were skipped."""

    sources: tuple[SourceFile, ...]
    """In order of priority."""
    skipped: tuple[SkippedFile, ...]


@dataclass(slots=True)
class _Search:
    """Collects the files of one request."""

    ctx: CallContext
    limits: AssistantLimits
    argument: str
    faults: list[FieldError] = field(default_factory=list[FieldError])
    refusals: list[SecurityError] = field(default_factory=list[SecurityError])
    """Those of the faults that are security errors."""
    sources: dict[str, SourceFile] = field(default_factory=dict[str, SourceFile])
    """By real path, so that no file is read twice."""
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    scanned: dict[str, ScannedFile] = field(default_factory=dict[str, ScannedFile])
    read_bytes: int = 0

    def add_name(self, name: str) -> None:
        """Adds a named file, or all files of a named folder."""
        try:
            with self.ctx.open(name, Kind.READ, argument=self.argument) as target:
                path = printable_name(self.ctx.mounts.display_path(target.path))
                if not target.exists:
                    self._add_fault(missing_file_message(self.ctx, target, path))
                elif target.handle.is_folder:
                    self._add_folder(target, path)
                elif target.handle.is_file:
                    self._add_file(target, path)
                else:
                    raise not_a_file_error(target.handle.status.st_mode, path)
        except SecurityError as error:
            self.refusals.append(refusal_error(self.ctx, name, self.argument, error))
            self.faults.extend(self.refusals[-1].fields)
        except ValidationError as error:
            self.faults.extend(FieldError(self.argument, each.error) for each in error.fields)
        except ToolError as error:
            self._add_fault(error.message)

    def _add_fault(self, error: str) -> None:
        self.faults.append(FieldError(self.argument, error))

    def raise_faults(self) -> None:
        """Raises one error for all wrong names."""
        message, faults = "; ".join(f"{fault.field}: {fault.error}" for fault in self.faults), tuple(self.faults)
        if self.refusals:
            hints = dict.fromkeys(each.hint for each in self.refusals if each.hint)
            raise SecurityError(message, faults, hint=" ".join(hints))
        if faults:
            raise ValidationError(message, faults, hint="Correct these names, then send the request again.")

    def _add_folder(self, target: Target, path: str) -> None:
        listing = scan_folder(self.ctx, target)
        if not listing.files:
            self.skipped.append(
                SkippedFile(path, "contains no file that may be sent; files named in .gitignore are not scanned")
            )
        if not listing.is_whole:
            self.skipped.append(
                SkippedFile(path, f"contains more than the {len(listing.files):,} files that were listed")
            )
        self.skipped.extend(SkippedFile(link, _LINK_OUT) for link in listing.links_out)
        for each in listing.files:
            self.scanned.setdefault(each.path, each)

    def _add_file(self, target: Target, path: str) -> None:
        if target.real in self.sources:
            return
        if self.read_bytes + target.handle.status.st_size > _MOST_BYTES:
            self.skipped.append(SkippedFile(path, _size_limit_reason()))
            return
        self._add_result(read_source(self.ctx, target, path, self.limits, is_named=True), target)

    def _add_result(self, found: SourceFile | SkippedFile, target: Target) -> None:
        if isinstance(found, SkippedFile):
            self.skipped.append(found)
        else:
            self.sources[target.real] = found
            self.read_bytes += target.handle.status.st_size

    def read_folders(self) -> None:
        """Reads the files of the folders, in order of priority."""
        skipped, self.skipped = self.skipped, []
        ordered = sorted(self.scanned.values(), key=lambda each: file_rank(each.relative))
        pending = [file for file in ordered if file.path not in self.sources]
        for file in pending[:_MOST_SCANNED]:
            self.ctx.check_time()
            self._read_scanned_file(file)
        skipped.extend(_limit_skipped(self.skipped))
        if len(pending) > _MOST_SCANNED:
            count = len(pending) - _MOST_SCANNED
            reason = f"not read, nor {count - 1:,} more files: a request reads {_MOST_SCANNED} files of folders"
            skipped.append(SkippedFile(pending[_MOST_SCANNED].shown, reason))
        self.skipped = skipped

    def _read_scanned_file(self, file: ScannedFile) -> None:
        target = file.open()
        if target is None:
            self.skipped.append(SkippedFile(file.shown, "was deleted before it could be read"))
            return
        with target:
            if not target.handle.is_file:
                self.skipped.append(SkippedFile(file.shown, "is not a regular file"))
            elif self.read_bytes + target.handle.status.st_size > _MOST_BYTES:
                self.skipped.append(SkippedFile(file.shown, _size_limit_reason()))
            else:
                try:
                    found = read_source(self.ctx, target, file.shown, self.limits, is_named=False)
                except (ValidationError, SecurityError) as error:
                    found = SkippedFile(file.shown, skip_reason(error))
                self._add_result(found, target)


def find_files(
    ctx: CallContext, names: Sequence[str], limits: AssistantLimits, *, field: str = "files"
) -> FoundFiles:
    """Reads the named files and folders.

    Raises ValidationError with every fault for names that do not exist, too many names and files that are too large,
    and SecurityError if one of the names leads out of the workspace or to something that is not a file.
    """
    distinct = tuple(dict.fromkeys(names))
    if len(distinct) > limits.files:
        raise ValidationError.of(
            field,
            f"names {len(distinct):,} files; the limit is {limits.files:,}",
            hint="Name the folder that holds them, or send fewer.",
        )
    search = _Search(ctx, limits, field)
    for name in distinct:
        ctx.check_time()
        search.add_name(name)
    search.raise_faults()
    search.read_folders()
    sources = search.sources.values()
    return FoundFiles(
        tuple(replace(each, outline_only=at >= limits.files) for at, each in enumerate(sources)),
        tuple(search.skipped),
    )


def reread_file(ctx: CallContext, path: str, digest: str, limits: AssistantLimits) -> SourceFile | SkippedFile:
    """Reads a file again that an earlier turn of a thread showed; `digest` identifies the version shown then.

    A file for secrets was named by the caller then. A changed version was not, nor was a file of the same name in
    another workspace whose server continues the thread, so neither is sent.
    """
    try:
        with ctx.open(path, Kind.READ) as target:
            if not target.exists:
                return SkippedFile(path, "no longer exists")
            if not target.handle.is_file:
                return SkippedFile(path, "is no longer a file")
            found = read_source(ctx, target, path, limits, is_named=False)
            if not isinstance(found, SkippedFile) or found.reason != OMITTED_FILE_NOTICE:
                return found
            found = read_source(ctx, target, path, limits, is_named=True)
            is_same = isinstance(found, SkippedFile) or found.digest == digest
            return found if is_same else SkippedFile(path, _CHANGED_SECRETS)
    except SecurityError as error:
        return SkippedFile(path, f"cannot be shown again: {refusal_error(ctx, path, 'path', error).fields[0].error}")
    except ToolyardError as error:
        return SkippedFile(path, f"cannot be shown again: {skip_reason(error)}")


def _size_limit_reason() -> str:
    return f"left out: all files together have more than {_MOST_BYTES // MIB} MiB"


def _limit_skipped(skipped: Iterable[SkippedFile]) -> list[SkippedFile]:
    every = list(skipped)
    if len(every) <= _MOST_SKIPPED:
        return every
    first = every[_MOST_SKIPPED - 1]
    rest = len(every) - _MOST_SKIPPED
    return [
        *every[: _MOST_SKIPPED - 1],
        SkippedFile(first.path, f"{first.reason}; {rest:,} more files are left out, too"),
    ]

"""From the names in a request to the files that may be sent.

Files that were named come first, in their order, then those of the folders that were named: source, tests, settings,
documents, the rest. What is wrong with a name is an error, and all that is wrong is told at once; what is wrong with
a file that was merely met in a folder is a reason to leave it out.
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
"""Of all files together: many times what any model takes in."""
_MOST_SKIPPED = 100
"""Files of folders that are left out one by one; of more it is told how many."""
_LINK_OUT = "is a link that leads out of the workspace; links are not followed"
_CHANGED_SECRETS = (
    "is a file for secrets by its name, and is not what was shown before; ask the user before you name it again"
)


@dataclass(frozen=True, slots=True)
class FoundFiles:
    sources: tuple[SourceFile, ...]
    """In the order in which they get room."""
    skipped: tuple[SkippedFile, ...]


@dataclass(slots=True)
class _Search:
    ctx: CallContext
    limits: AssistantLimits
    argument: str
    faults: list[FieldError] = field(default_factory=list[FieldError])
    refusals: list[SecurityError] = field(default_factory=list[SecurityError])
    """Those of the faults that are a matter of security."""
    sources: dict[str, SourceFile] = field(default_factory=dict[str, SourceFile])
    """By where the file really lies, so that none comes twice."""
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    scanned: dict[str, ScannedFile] = field(default_factory=dict[str, ScannedFile])
    read_bytes: int = 0

    def add_name(self, name: str) -> None:
        """Take what was named: a file, or all files of a folder."""
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
        """Raises where a name is wrong: one error for all."""
        told, faults = "; ".join(f"{fault.field}: {fault.error}" for fault in self.faults), tuple(self.faults)
        if self.refusals:
            hints = dict.fromkeys(each.hint for each in self.refusals if each.hint)
            raise SecurityError(told, faults, hint=" ".join(hints))
        if faults:
            raise ValidationError(told, faults, hint="Correct these names, then send the request again.")

    def _add_folder(self, target: Target, path: str) -> None:
        listing = scan_folder(self.ctx, target)
        if not listing.files:
            self.skipped.append(
                SkippedFile(path, "holds no file that may be sent; what .gitignore names is not scanned")
            )
        if not listing.is_whole:
            self.skipped.append(
                SkippedFile(path, f"holds more than the {len(listing.files):,} files that were listed")
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
        """Read what the folders hold, in the order in which it gets room."""
        told, self.skipped = self.skipped, []
        ordered = sorted(self.scanned.values(), key=lambda each: file_rank(each.relative))
        wanted = [met for met in ordered if met.path not in self.sources]
        for met in wanted[:_MOST_SCANNED]:
            self.ctx.check_time()
            self._read_scanned_file(met)
        told.extend(_limit_skipped(self.skipped))
        if len(wanted) > _MOST_SCANNED:
            count = len(wanted) - _MOST_SCANNED
            reason = (
                f"not looked at, nor {count - 1:,} more files: a request looks at {_MOST_SCANNED} files of folders"
            )
            told.append(SkippedFile(wanted[_MOST_SCANNED].shown, reason))
        self.skipped = told

    def _read_scanned_file(self, file: ScannedFile) -> None:
        target = file.open()
        if target is None:
            self.skipped.append(SkippedFile(file.shown, "was gone when it was to be read"))
            return
        with target:
            if not target.handle.is_file:
                self.skipped.append(SkippedFile(file.shown, "is no regular file"))
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
    """What the named files and folders hold.

    ValidationError, with every fault, for names of nothing, for too many of them and for files that are too large;
    SecurityError where among them is a name that leads out of the workspace or to something that is no file.
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
    """A file that an earlier turn of a thread showed, as it is now; `digest` is of what was shown.

    A file for secrets was named then. Another version was not, nor was the file of that name in another workspace,
    whose server goes on with the thread.
    """
    try:
        with ctx.open(path, Kind.READ) as target:
            if not target.exists:
                return SkippedFile(path, "is no longer there")
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

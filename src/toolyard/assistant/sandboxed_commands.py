"""Programs of our own (git, ruff ...) at work on the workspace, in a sandbox that only reads.

What they are pointed at is somebody else's: the configuration of a repository that was cloned can make git run
programs, that of a linter can name plugins. So each runs behind the kernel's walls: it reads the workspace as the
policy shows it and nothing else of the user's, writes nothing, reaches no network and finds no secret in its
environment. Where there are no such walls, nothing runs (SecurityError).

They are not commands of the caller: which program it is, and with which options, is fixed in our code. That is why
they do not pass `gate.command`, which judges what callers make up. The audit log tells of them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.limits import MIB
from toolyard.core.paths import is_beneath
from toolyard.dispatch.call_context import CallContext
from toolyard.sandbox.spec import Mount, RunEnding, RunKind, RunRequest, RunResult, Stream

OUTPUT_BYTES = 20 * MIB
TIMEOUT_SECONDS = 30.0
_BASE_VARIABLES = {"LC_ALL": "C"}
"""What every program gets beside the sandbox's own few variables."""
_ATTEMPTS = 3
"""Another call may replace the sandbox under a run, and whatever only reads can be run again."""
_LOST_ENDINGS = frozenset({RunEnding.LOST, RunEnding.MOUNT_LOST, RunEnding.BUSY})


@dataclass(frozen=True, slots=True)
class ProgramResult:
    exit_code: int
    out: bytes
    err: bytes
    is_complete: bool
    """Whether it came to its own end: one that took too long, or printed too much, was ended."""


@dataclass(slots=True)
class _OutputBuffer:
    """What a program prints, up to a number of bytes."""

    most: int
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def append(self, stream: Stream, data: bytes) -> None:
        kept = self.out if stream is Stream.OUT else self.err
        kept += data[: max(0, self.most - len(self.out) - len(self.err))]


def run_program(
    ctx: CallContext,
    argv: Sequence[str],
    *,
    folder: str = "",
    seconds: float = TIMEOUT_SECONDS,
    output_bytes: int = OUTPUT_BYTES,
    extra_mounts: tuple[Mount, ...] = (),
    variables: Mapping[str, str] | None = None,
) -> ProgramResult:
    """Run a program to its end, or until its time is up, or it printed too much, or the call is cancelled.

    `folder` is where it starts: relative to the workspace, or absolute inside it. `extra_mounts` is seen by it, read-only.
    """
    line = _shell_line(argv, {**_BASE_VARIABLES, **(variables or {})})
    place = _working_folder(ctx, folder)
    ctx.require_thread()
    if (remark := f"Ran {argv[0]} in a sandbox that only reads.") not in ctx.audit_notes:
        ctx.add_audit_note(remark)
    for _ in range(_ATTEMPTS):
        ctx.check_time()
        left = min(seconds, max(0.0, ctx.deadline - time.monotonic()))
        printed = _OutputBuffer(output_bytes)
        request = RunRequest(RunKind.COMMAND, line, left, folder=place, output_bytes=output_bytes)
        ready = ctx.sandboxes.get_read_only_sandbox(extra_mounts)
        outcome = ready.sandbox.run(request, printed.append, ctx.cancelled)
        if outcome.ending not in _LOST_ENDINGS:
            return _program_result(ctx, outcome, printed)
    message = f"The sandbox of {argv[0]} was lost {_ATTEMPTS} times."
    raise SystemFault(message, hint="Try again; `toolyard doctor` tells what this machine offers.", retryable=True)


def _shell_line(argv: Sequence[str], variables: Mapping[str, str]) -> str:
    """The program for the sandbox's shell, which it takes the place of: nothing is left to be expanded."""
    named = [f"{name}={value}" for name, value in variables.items()]
    return f"exec /usr/bin/env {shlex.join([*named, *argv])}"


def _working_folder(ctx: CallContext, folder: str) -> str:
    if not folder:
        return ""
    place = ctx.mounts.clean(folder, field="folder")
    if not any(is_beneath(place, root) for root in ctx.mounts.declared_roots):
        raise SecurityError(f"{folder} is outside the workspace.", hint="Name a folder inside it.")
    return place


def _program_result(ctx: CallContext, outcome: RunResult, printed: _OutputBuffer) -> ProgramResult:
    if outcome.ending in {RunEnding.CANCELLED, RunEnding.TIMEOUT}:
        ctx.check_time()  # it may have been the whole call that was stopped, or whose time is up
    is_whole = outcome.ending is RunEnding.FINISHED
    return ProgramResult(outcome.exit_code, bytes(printed.out), bytes(printed.err), is_whole)

"""Runs our own programs (git, ruff ...) on the workspace, in a read-only sandbox.

The files that they read are untrusted: the configuration of a cloned repository can make git run programs, and that
of a linter can name plugins. So each program runs under kernel restrictions: it reads the workspace as the policy
shows it and no other file of the user, writes nothing, has no network and no secrets in its environment. Without such
a sandbox nothing runs (SecurityError).

These are not commands of the caller: program and options are fixed in our code. That is why they skip the check for
commands, which judges what callers write. The audit log records them.
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
"""Set for every program besides the sandbox's own few variables."""
_ATTEMPTS = 3
"""Another call may replace the sandbox during a run; a read-only program can be run again."""
_LOST_ENDINGS = frozenset({RunEnding.LOST, RunEnding.MOUNT_LOST, RunEnding.BUSY})


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and output of a program."""

    exit_code: int
    out: bytes
    err: bytes
    is_complete: bool
    """False if the program was stopped because it ran too long or printed too much."""


@dataclass(slots=True)
class _OutputBuffer:
    """Collects output up to a number of bytes."""

    most: int
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def append(self, stream: Stream, data: bytes) -> None:
        buffer = self.out if stream is Stream.OUT else self.err
        buffer += data[: max(0, self.most - len(self.out) - len(self.err))]


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
    """Runs a program until it ends, its time is up, it prints too much, or the call is cancelled.

    `folder` is the working directory: relative to the workspace, or absolute inside it. `extra_mounts` are visible to
    the program, read-only.
    """
    line = _shell_line(argv, {**_BASE_VARIABLES, **(variables or {})})
    working_folder = _working_folder(ctx, folder)
    ctx.require_thread()
    if (remark := f"Ran {argv[0]} in a read-only sandbox.") not in ctx.notes.for_audit:
        ctx.add_audit_note(remark)
    for _ in range(_ATTEMPTS):
        ctx.check_time()
        left = min(seconds, max(0.0, ctx.budget.deadline - time.monotonic()))
        printed = _OutputBuffer(output_bytes)
        request = RunRequest(RunKind.COMMAND, line, left, folder=working_folder, output_bytes=output_bytes)
        ready = ctx.sandboxes.get_read_only_sandbox(extra_mounts)
        outcome = ready.sandbox.run(request, printed.append, ctx.budget.cancelled)
        if outcome.ending not in _LOST_ENDINGS:
            return _program_result(ctx, outcome, printed)
    message = f"The sandbox of {argv[0]} was lost {_ATTEMPTS} times."
    raise SystemFault(message, hint="Try again; `toolyard doctor` shows what this machine supports.", retryable=True)


def _shell_line(argv: Sequence[str], variables: Mapping[str, str]) -> str:
    """Returns a line for the sandbox's shell that replaces the shell by the program, with everything quoted."""
    named = [f"{name}={value}" for name, value in variables.items()]
    return f"exec /usr/bin/env {shlex.join([*named, *argv])}"


def _working_folder(ctx: CallContext, folder: str) -> str:
    if not folder:
        return ""
    path = ctx.mounts.clean(folder, field="folder")
    if not any(is_beneath(path, root) for root in ctx.mounts.declared_roots):
        raise SecurityError(f"{folder} is outside the workspace.", hint="Name a folder inside it.")
    return path


def _program_result(ctx: CallContext, outcome: RunResult, printed: _OutputBuffer) -> ProgramResult:
    if outcome.ending in {RunEnding.CANCELLED, RunEnding.TIMEOUT}:
        ctx.check_time()  # raises if the call itself was cancelled or timed out
    is_whole = outcome.ending is RunEnding.FINISHED
    return ProgramResult(outcome.exit_code, bytes(printed.out), bytes(printed.err), is_whole)

"""Explains why a command failed if its own output does not: a file that is closed to it, or too many processes.

The hints are derived from what the run printed, so they are only hints: a run that fakes an error gets a useless one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.paths import is_beneath
from toolyard.dispatch.call_context import CallContext
from toolyard.sandbox.manager import ReadySandbox
from toolyard.sandbox.spec import RunResult

_READ_CHARS = 20_000  # from the end, where failures are reported
_MOST_NAMED = 3
_REFUSAL_PATTERN = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Device or resource busy"
)
_FORK_FAILURE_PATTERN = re.compile(
    r"fork: (retry: )?Resource temporarily unavailable|can't start new thread|Cannot fork"
)


def failure_hints(output: str, outcome: RunResult, ready: ReadySandbox, ctx: CallContext) -> list[str]:
    """Returns hints on why a run that printed `output` failed."""
    output = output[-_READ_CHARS:]
    found: list[str] = []
    if outcome.hit_process_limit or _FORK_FAILURE_PATTERN.search(output):
        most = ctx.sandboxes.limits.processes
        found.append(
            f"The process limit was reached: the sandbox may have at most {most:,} processes and "
            "threads in total (code_execution.limits.processes). Start fewer at a time."
        )
    refusals = [line for line in output.splitlines() if _REFUSAL_PATTERN.search(line)]
    return found + (_closed_file_hints(refusals, ready, ctx) if refusals else [])


def _closed_file_hints(refusals: list[str], ready: ReadySandbox, ctx: CallContext) -> list[str]:
    spec = ready.spec
    sealed = [
        mount.source for mount in spec.mounts if not mount.writable and is_beneath(mount.source, spec.workspace)
    ]
    if beside := [*_file_tool_hints(refusals, ready, ctx)][:_MOST_NAMED]:
        return beside
    if not spec.writable:
        return ["The sandbox may read the workspace and write nothing there; /tmp can be written."]
    if not sealed and not spec.hidden:
        return []
    named = [
        *_named_file_hints(refusals, spec.hidden, Kind.READ, ready, ctx),
        *_named_file_hints(refusals, sealed, Kind.WRITE, ready, ctx),
    ]
    counts = f"{len(sealed)} are read-only, {len(spec.hidden)} hidden"
    return named[:_MOST_NAMED] or [f"Some files are closed to commands by the user's rules: {counts}."]


def _file_tool_hints(refusals: list[str], ready: ReadySandbox, ctx: CallContext) -> Iterator[str]:
    """Yields hints for folders beside the workspace that commands only read and the file tools may write."""
    for mount in ready.spec.mounts:
        path = mount.source
        if mount.writable or is_beneath(path, ready.spec.workspace) or not any(path in line for line in refusals):
            continue
        action = Action(Kind.WRITE, "Write", os.path.join(path, "any-name"))
        if ctx.services.policy.decide(action).effect is not Effect.DENY:
            yield f"{path} is read-only to commands. The file tools (Write, Edit) can change files there."


def _named_file_hints(
    refusals: list[str], paths: list[str] | tuple[str, ...], kind: Kind, ready: ReadySandbox, ctx: CallContext
) -> Iterator[str]:
    how, tool = ("hidden from", "Read") if kind is Kind.READ else ("read-only to", "Write")
    for path in paths:
        shown = os.path.relpath(path, ready.spec.workspace)
        if not any(_mentions_path(line, shown) for line in refusals):
            continue
        decision = ctx.services.policy.decide(Action(kind, tool, path))
        why = f" {decision.reason}" if decision.effect is not Effect.ALLOW else ""
        yield f"{shown} is {how} commands.{why}"


def _mentions_path(line: str, shown: str) -> bool:
    """Whether a line of an error names this path or something in it. A file's last name suffices."""
    spelled = {re.escape(shown), re.escape(os.path.basename(shown))}
    return re.search(rf"(^|[\s'\"`:(/])({'|'.join(spelled)})($|[\s'\"`:)/,])", line) is not None

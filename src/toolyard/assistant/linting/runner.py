"""Runs linters on files of the workspace, in a read-only sandbox.

A linter that is missing, fails or takes too long adds a note and never an error: a review continues without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from toolyard.assistant import sandboxed_commands
from toolyard.assistant.linting.linters import LINTERS, Linter
from toolyard.assistant.linting.model import LintEvidence, LintFinding
from toolyard.core.actions import Kind
from toolyard.core.errors import SecurityError, SystemFault, ToolyardError
from toolyard.core.limits import MIB
from toolyard.core.paths import relative_to
from toolyard.dispatch.call_context import CallContext

LINTER_SECONDS = 30.0
"""Time limit of one linter."""
TOTAL_SECONDS = 60.0
MOST_FINDINGS = 500
MOST_FILES = 100
OUTPUT_BYTES = 1 * MIB
_NOT_FOUND = 127
_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Job:
    """One run in `folder` on `targets`, for `files` of the workspace."""

    folder: str
    targets: tuple[str, ...]
    files: frozenset[str]


@dataclass(slots=True)
class _LintReport:
    """Collects the results of all linters."""

    findings: list[LintFinding] = field(default_factory=list[LintFinding])
    ran: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def evidence(self) -> LintEvidence:
        ordered = sorted(dict.fromkeys(self.findings), key=lambda each: (each.path, each.line, each.tool, each.code))
        notes = list(dict.fromkeys(self.notes))
        if len(ordered) > MOST_FINDINGS:
            notes.append(
                f"{len(ordered) - MOST_FINDINGS:,} more findings of linters after the first {MOST_FINDINGS:,}."
            )
        return LintEvidence(tuple(ordered[:MOST_FINDINGS]), tuple(dict.fromkeys(self.ran)), tuple(notes))


def lint(ctx: CallContext, paths: Sequence[str], *, seconds: float = TOTAL_SECONDS) -> LintEvidence:
    """Runs the available linters; returns findings about the files at `paths` only."""
    files = tuple(dict.fromkeys(_visible_files(ctx, paths)))
    report = _LintReport()
    until = time.monotonic() + seconds
    for linter in LINTERS:
        matching = [file for file in files if file.endswith(linter.suffixes)]
        if len(matching) > MOST_FILES:
            report.notes.append(f"{linter.name} checked {MOST_FILES} of {len(matching)} files.")
        for job in _jobs(ctx, linter, matching[:MOST_FILES]):
            left = min(LINTER_SECONDS, until - time.monotonic())
            if left <= 0:
                report.notes.append(f"{linter.name} did not run: the linters before it used up the time.")
                break
            try:
                _lint_job(ctx, linter, job, left, report)
            except SecurityError as error:
                return LintEvidence(notes=(f"Linters did not run: {error}",))
            except SystemFault as error:
                report.notes.append(f"{linter.name} did not run: {error}")
    return report.evidence()


def _visible_files(ctx: CallContext, paths: Iterable[str]) -> Iterator[str]:
    """Yields the paths that are visible, relative to the workspace."""
    workspace = ctx.mounts.workspace.path
    for path in paths:
        clean = ctx.mounts.clean(path)
        inside = relative_to(clean, workspace)
        if inside is not None and inside.isprintable() and ctx.permissions.is_visible(clean):
            yield inside


def _jobs(ctx: CallContext, linter: Linter, files: Sequence[str]) -> Iterator[_Job]:
    if not files:
        return
    if not linter.module_file:
        yield _Job("", tuple(f"./{file}" for file in files), frozenset(files))
        return
    by_module: dict[str, list[str]] = {}
    for file in files:
        folder = _folder_with(ctx, linter.module_file, os.path.dirname(file))
        if folder is not None:
            by_module.setdefault(folder, []).append(file)
    for folder, own in by_module.items():
        within = dict.fromkeys(os.path.relpath(os.path.dirname(file) or ".", folder or ".") for file in own)
        yield _Job(folder, tuple(f"./{each}" if each != "." else "." for each in within), frozenset(own))


def _folder_with(ctx: CallContext, name: str, folder: str) -> str | None:
    """Returns `folder` or the nearest folder above it that contains a file called `name`."""
    while not _file_exists(ctx, os.path.join(folder, name)):
        if not folder:
            return None
        folder = os.path.dirname(folder)
    return folder


def _file_exists(ctx: CallContext, path: str) -> bool:
    if not ctx.permissions.is_visible(ctx.mounts.clean(path)):
        return False
    try:
        with ctx.open(path, Kind.READ) as target:
            return target.exists and target.handle.is_file
    except ToolyardError:
        return False


def _lint_job(ctx: CallContext, linter: Linter, job: _Job, seconds: float, report: _LintReport) -> None:
    ran = _run_linter(ctx, linter, job, seconds, ())
    if ran.exit_code == _NOT_FOUND:
        report.notes.append(f"{linter.name} is not installed.")
        return
    if linter.otherwise and ran.is_complete and ran.exit_code not in linter.success_codes:
        report.notes.append(f"{linter.name} ran without the project's configuration: {_failure_reason(ran)}")
        ran = _run_linter(ctx, linter, job, seconds, linter.otherwise)
    found = list(_with_workspace_paths(linter.parse_output(ran), ctx, job))
    report.findings += [each for each in found if each.path in job.files]
    if not ran.is_complete:
        report.notes.append(f"{linter.name} was stopped: it took too long, or printed too much.")
    elif ran.exit_code not in linter.success_codes or (ran.exit_code and not found):
        report.notes.append(f"{linter.name} failed: {_failure_reason(ran)}")
        return
    report.ran.append(linter.name)


def _run_linter(
    ctx: CallContext, linter: Linter, job: _Job, seconds: float, options: Sequence[str]
) -> sandboxed_commands.ProgramResult:
    return sandboxed_commands.run_program(
        ctx,
        (*linter.command, *options, *job.targets),
        folder=job.folder,
        seconds=seconds,
        output_bytes=OUTPUT_BYTES,
        variables=linter.variables,
    )


def _with_workspace_paths(found: Iterable[LintFinding], ctx: CallContext, job: _Job) -> Iterator[LintFinding]:
    """Yields the findings with paths relative to the workspace, however the linter printed them."""
    workspace = ctx.mounts.workspace.path
    start = os.path.join(workspace, job.folder)
    for each in found:
        path = relative_to(os.path.normpath(os.path.join(start, each.path)), workspace)
        if path is not None:
            yield LintFinding(each.tool, path, each.line, each.code, each.text, each.level)


def _failure_reason(ran: sandboxed_commands.ProgramResult) -> str:
    """Returns the first line of the linter's own error message."""
    lines = (ran.err.strip() or ran.out.strip()).decode("utf-8", "replace").splitlines()
    reason = next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "no reason given")
    return reason[:_REASON_CHARS]

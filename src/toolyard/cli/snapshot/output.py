"""Prints the results of `toolyard snapshot`: coloured in a terminal, plain elsewhere, control characters escaped."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from toolyard.core.text import printable
from toolyard.snapshots import (
    ChangeType,
    Diff,
    PathChange,
    RebuildResult,
    RestoreResult,
    Snapshot,
    TreeEntry,
    VerifyResult,
)
from toolyard.snapshots.service.format import (
    MARKS,
    HistoryEntry,
    author_and_reason,
    change_line,
    display_path,
    entry_line,
    folded_line,
    line_counts,
    note_lines,
    pluralize,
    relative_age,
    restored_text,
    skipped_repositories_line,
    stat_line,
)

if TYPE_CHECKING:
    from toolyard.snapshots import PruneResult

_COLOURS = {
    ChangeType.ADDED: "green",
    ChangeType.REMOVED: "red",
    ChangeType.CHANGED: "yellow",
    ChangeType.RENAMED: "cyan",
    ChangeType.MODE: "magenta",
}
_LINE_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_HEADINGS = ("--- ", "+++ ")
_NOTES_SHOWN = 50
_QUIET_SECONDS = 1.0
_TICK_SECONDS = 0.2
_RECENT_SECONDS = 3_600.0
_NS = 1_000_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def print_json(value: Any) -> None:
    """Prints a value as JSON."""
    click.echo(json.dumps(value, indent=2))


class Duration(click.ParamType[float]):
    """A duration such as 30d, 12h or 2w, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration; write 30d, 12h, 90m or 2w", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


def progress_ticker(activity: str, *, prints_without_terminal: bool = False) -> Callable[[], None]:
    """Returns a function to call during long work, from any thread: after a second it shows progress on stderr.

    Without a terminal it prints nothing, or one line with `prints_without_terminal`.
    """
    began = last = time.monotonic()
    is_terminal = sys.stderr.isatty()
    printed = threading.Lock()  # acquired once, by the thread that prints the line

    def tick() -> None:
        nonlocal last
        now = time.monotonic()
        if now - began <= _QUIET_SECONDS:
            return
        if not is_terminal:
            if prints_without_terminal and printed.acquire(blocking=False):
                click.echo(f"{activity} ...", err=True)
        elif now - last > _TICK_SECONDS:
            last = now
            click.echo(f"\r{activity} ... {now - began:.0f} s \r", nl=False, err=True)

    return tick


def print_list(found: Sequence[HistoryEntry]) -> None:
    """Prints the snapshots of a list."""
    times = [_local_time(each.snapshot) for each in found]
    width = max(map(len, times), default=0)
    for each, when in zip(found, times, strict=True):
        line = each.line(f"  {when:<{width}}" if width else "")
        name, rest = each.snapshot.id, printable(line).removeprefix(each.snapshot.id)
        click.echo(f"{click.style(name, fg='yellow')}{rest}")


def _local_time(snapshot: Snapshot) -> str:
    """Returns the local time of an older snapshot, for which the age is too coarse."""
    if time.time_ns() - snapshot.time_ns < _RECENT_SECONDS * _NS:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.time_ns / _NS))


def print_folder(entries: Iterable[TreeEntry]) -> None:
    """Prints the entries of a folder."""
    for entry in entries:
        click.echo(printable(entry_line(entry)))


def print_head(snapshot: Snapshot) -> None:
    """Prints id, age, size and author of a snapshot, and its notes."""
    files = pluralize(snapshot.counts.files, "file")
    click.echo(
        click.style(
            f"{snapshot.id}, {relative_age(snapshot.time_ns)}, {files}, {printable(author_and_reason(snapshot))}",
            bold=True,
        )
    )
    for note in snapshot.notes[:_NOTES_SHOWN]:
        click.echo(f"  {printable(display_path(note.path))}: {printable(note.why)}")


def print_content(data: bytes) -> None:
    """Prints the lines of a file, escaped for a terminal."""
    decoded = data.decode("utf-8", "backslashreplace").removesuffix("\n")
    for line in decoded.split("\n") if data else ():
        click.echo(_escape_line(line.removesuffix("\r")))


def _escape_line(line: str) -> str:
    """Escapes everything but tabs that is not printable."""
    return "\t".join(map(printable, line.split("\t")))


def print_diff(found: Diff, *, stat: bool) -> None:
    """Prints a diff; with `stat` only the paths and line counts."""
    for change in found.changes:
        _print_change(change, stat=stat)
    for each in found.collapsed:
        click.echo(f"{printable(folded_line(each))} (--all shows them)")
    if found.omitted_count:
        click.echo(f"and {pluralize(found.omitted_count, 'more change')}")
    if stat and found.total:
        counts = [line_counts(change.text) for change in found.changes]
        added, removed = sum(each[0] for each in counts), sum(each[1] for each in counts)
        click.echo(f"{pluralize(found.total, 'path')} changed, +{added} -{removed}")


def _print_change(change: PathChange, *, stat: bool) -> None:
    line = stat_line(change) if stat else change_line(change)
    mark = MARKS[change.what]
    shown = printable(line).removeprefix(mark)
    click.echo(f"{click.style(mark, fg=_COLOURS[change.what], bold=True)}{click.style(shown, bold=not stat or None)}")
    for text in change.text.splitlines() if not stat else ():
        is_heading = text.startswith(_HEADINGS)
        shown = _escape_line(text)
        click.echo(
            click.style(shown, bold=is_heading or None, fg=None if is_heading else _LINE_COLOURS.get(text[:1]))
        )


def print_restored(result: RestoreResult) -> None:
    """Prints what a restore did."""
    click.echo(restored_text(result))
    for line in note_lines(result, _NOTES_SHOWN) if result.differed else ():
        click.echo(printable(line), err=True)
    print_left(result.skipped_repositories, "Left")


def print_left(paths: Sequence[bytes], verb: str) -> None:
    """Prints the paths that were not touched."""
    if paths:
        click.echo(printable(f"{skipped_repositories_line(paths, verb, '--with-git')}."))


def print_rebuilt(result: RebuildResult) -> None:
    """Prints the result of a rebuild to stderr; the verification that follows goes to stdout."""
    found = f"{pluralize(result.snapshots, 'snapshot')} and {pluralize(result.objects, 'object')}"
    click.echo(f"Rebuilt the index from the packs, with {found}.", err=True)
    for path, size in result.unreadable.items():
        click.echo(printable(f"Lost: {pluralize(size, 'byte')} of {path} cannot be read."), err=True)
    for snapshot in result.lost:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.time_ns / 1e9))
        click.echo(printable(f"Lost for good: snapshot {snapshot.id} of {when} ({snapshot.reason})."), err=True)


def print_collected(result: PruneResult) -> None:
    """Prints what a garbage collection removed."""
    freed = pluralize(max(result.bytes_freed, 0), "byte")
    click.echo(f"Dropped {pluralize(len(result.snapshots), 'snapshot')}, freed {freed}.")


def print_verified(result: VerifyResult, snapshots: int, rebuilt: RebuildResult | None, *, forgotten: bool) -> None:
    """Prints the result of a verification."""
    read = f"{pluralize(result.objects, 'object')} of {pluralize(snapshots, 'snapshot')}"
    if result.is_intact and rebuilt is not None and not rebuilt.is_complete:
        lost = f"{pluralize(len(rebuilt.lost), 'snapshot')}, {pluralize(sum(rebuilt.unreadable.values()), 'byte')}"
        click.echo(f"Incomplete: {lost} lost. The rest is intact: read {read}.")
        return
    if result.is_intact:
        click.echo(f"Intact: read {read}, {pluralize(result.bytes_read, 'byte')}.")
        return
    where = f" in {', '.join(result.packs)}" if result.packs else ""
    click.echo(f"Damaged: {pluralize(len(result.damaged_objects), 'object')}{where} among {read}.")
    for harm in result.damaged_paths[:_NOTES_SHOWN]:
        click.echo(f"  {harm.snapshot.id}  {printable(display_path(harm.path))}")
    if len(result.damaged_paths) > _NOTES_SHOWN:
        click.echo(f"  and {pluralize(len(result.damaged_paths) - _NOTES_SHOWN, 'more path')}")
    if not forgotten:
        click.echo(
            "`toolyard snapshot verify --forget` discards damaged objects; the next snapshot stores them again."
        )

"""How `toolyard snapshot` prints: coloured in a terminal, plain elsewhere, and nothing that a terminal acts on."""

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
from toolyard.snapshots import Change, Diff, Entry, Rebuilt, Restored, Snapshot, Verified, What
from toolyard.snapshots.service.format import (
    MARKS,
    Listed,
    about,
    age,
    change_line,
    counted,
    entry_line,
    folded_line,
    left_line,
    line_counts,
    note_lines,
    path_of,
    restored_text,
    stat_line,
)

if TYPE_CHECKING:
    from toolyard.snapshots import Collected

_COLOURS = {
    What.ADDED: "green",
    What.REMOVED: "red",
    What.CHANGED: "yellow",
    What.RENAMED: "cyan",
    What.MODE: "magenta",
}
_LINES = {"+": "green", "-": "red", "@": "cyan"}
_HEADINGS = ("--- ", "+++ ")
_NOTES_SHOWN = 50
_PATIENCE = 1.0
_TICK = 0.2
_AGE_SAYS_ENOUGH = 3_600.0
_NS = 1_000_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def as_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


class Duration(click.ParamType[float]):
    """A span of time as people write it: 30d, 12h, 2w."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no span of time; write 30d, 12h, 90m or 2w", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


def ticking(doing: str, *, tells_all: bool = False) -> Callable[[], None]:
    """To be called now and then, by any thread: after a second it tells somebody at a terminal that work goes on.

    With `tells_all` those who are at no terminal are told, too, once.
    """
    began = last = time.monotonic()
    shows = sys.stderr.isatty()
    told = threading.Lock()  # held for good by whoever tells it

    def tick() -> None:
        nonlocal last
        now = time.monotonic()
        if now - began <= _PATIENCE:
            return
        if not shows:
            if tells_all and told.acquire(blocking=False):
                click.echo(f"{doing} ...", err=True)
        elif now - last > _TICK:
            last = now
            click.echo(f"\r{doing} ... {now - began:.0f} s \r", nl=False, err=True)

    return tick


def listed(found: Sequence[Listed]) -> None:
    times = [_when(each.snapshot) for each in found]
    width = max(map(len, times), default=0)
    for each, when in zip(found, times, strict=True):
        line = each.line(f"  {when:<{width}}" if width else "")
        name, rest = each.snapshot.id, printable(line).removeprefix(each.snapshot.id)
        click.echo(f"{click.style(name, fg='yellow')}{rest}")


def _when(snapshot: Snapshot) -> str:
    """The local time of what is so old that an age alone says too little."""
    if time.time_ns() - snapshot.time_ns < _AGE_SAYS_ENOUGH * _NS:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.time_ns / _NS))


def folder(entries: Iterable[Entry]) -> None:
    for entry in entries:
        click.echo(printable(entry_line(entry)))


def head(snapshot: Snapshot) -> None:
    files = counted(snapshot.counts.files, "file")
    click.echo(
        click.style(f"{snapshot.id}, {age(snapshot.time_ns)}, {files}, {printable(about(snapshot))}", bold=True)
    )
    for note in snapshot.notes[:_NOTES_SHOWN]:
        click.echo(f"  {printable(path_of(note.path))}: {printable(note.why)}")


def content(data: bytes) -> None:
    """The lines of a file, which may be an agent's, for a terminal."""
    decoded = data.decode("utf-8", "backslashreplace").removesuffix("\n")
    for line in decoded.split("\n") if data else ():
        click.echo(_tabbed(line.removesuffix("\r")))


def _tabbed(line: str) -> str:
    """Everything else that is not printable is escaped."""
    return "\t".join(map(printable, line.split("\t")))


def diff(found: Diff, *, stat: bool) -> None:
    for change in found.changes:
        _change(change, stat=stat)
    for each in found.folded:
        click.echo(f"{printable(folded_line(each))} (--all shows them)")
    if found.left_off:
        click.echo(f"and {counted(found.left_off, 'more change')}")
    if stat and found.total:
        counts = [line_counts(change.text) for change in found.changes]
        added, removed = sum(each[0] for each in counts), sum(each[1] for each in counts)
        click.echo(f"{counted(found.total, 'path')} changed, +{added} -{removed}")


def _change(change: Change, *, stat: bool) -> None:
    line = stat_line(change) if stat else change_line(change)
    mark = MARKS[change.what]
    shown = printable(line).removeprefix(mark)
    click.echo(f"{click.style(mark, fg=_COLOURS[change.what], bold=True)}{click.style(shown, bold=not stat or None)}")
    for text in change.text.splitlines() if not stat else ():
        is_heading = text.startswith(_HEADINGS)
        shown = _tabbed(text)
        click.echo(click.style(shown, bold=is_heading or None, fg=None if is_heading else _LINES.get(text[:1])))


def restored(result: Restored) -> None:
    click.echo(restored_text(result))
    for line in note_lines(result, _NOTES_SHOWN) if result.differed else ():
        click.echo(printable(line), err=True)
    left(result.left, "Left")


def left(paths: Sequence[bytes], verb: str) -> None:
    if paths:
        click.echo(printable(f"{left_line(paths, verb, '--with-git')}."))


def rebuilt(result: Rebuilt) -> None:
    """On standard error: what is verified afterwards is the answer."""
    found = f"{counted(result.snapshots, 'snapshot')} and {counted(result.objects, 'object')}"
    click.echo(f"Made the index again from the packs, with {found}.", err=True)
    for path, size in result.unreadable.items():
        click.echo(printable(f"Lost: {counted(size, 'byte')} of {path} cannot be read."), err=True)
    for snapshot in result.lost:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.time_ns / 1e9))
        click.echo(printable(f"Lost for good: snapshot {snapshot.id} of {when} ({snapshot.reason})."), err=True)


def collected(result: Collected) -> None:
    freed = counted(max(result.bytes_freed, 0), "byte")
    click.echo(f"Dropped {counted(len(result.snapshots), 'snapshot')}, freed {freed}.")


def verified(result: Verified, snapshots: int, rebuilt: Rebuilt | None, *, forgotten: bool) -> None:
    read = f"{counted(result.objects, 'object')} of {counted(snapshots, 'snapshot')}"
    if result.is_sound and rebuilt is not None and not rebuilt.is_whole:
        lost = f"{counted(len(rebuilt.lost), 'snapshot')}, {counted(sum(rebuilt.unreadable.values()), 'byte')}"
        click.echo(f"Incomplete: {lost} lost. What is left is sound: read {read}.")
        return
    if result.is_sound:
        click.echo(f"Sound: read {read}, {counted(result.bytes_read, 'byte')}.")
        return
    where = f" in {', '.join(result.packs)}" if result.packs else ""
    click.echo(f"Damaged: {counted(len(result.damaged), 'object')}{where} among {read}.")
    for harm in result.harmed[:_NOTES_SHOWN]:
        click.echo(f"  {harm.snapshot.id}  {printable(path_of(harm.path))}")
    if len(result.harmed) > _NOTES_SHOWN:
        click.echo(f"  and {counted(len(result.harmed) - _NOTES_SHOWN, 'more path')}")
    if not forgotten:
        click.echo(
            "`toolyard snapshot verify --forget` gives up what is damaged, so that the next snapshot stores it anew."
        )

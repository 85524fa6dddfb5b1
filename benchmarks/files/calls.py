"""Calls per second over stdio: Read, Write and Edit beside the reference filesystem server.

Both serve a folder of the same files, to the same client. Ours asks the policy, records each call and puts every
write on the disk before it answers; the reference server does none of that. On a disk, writing is therefore measured
mostly in what one sync costs; the same in memory shows the cost of the software alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark import Bench
from benchmarks.lean_client import Arguments, BenchFault, Wire
from benchmarks.reference_server import Reference, install
from benchmarks.report import Row, at_least_times, beside, skipped
from benchmarks.rounds import Measured, interleaved

LANES = 16
_FACTOR = 1.5
_MEMORY_FOLDER = "/dev/shm"
_FILE_LINES = 80
_MARKS = ("marker = 'before'", "marker = 'after!'")
_UNIT = "calls/s"
_NAMES = {"Read": "read_text_file", "Write": "write_file", "Edit": "edit_file"}


@dataclass(frozen=True, slots=True)
class Side:
    """One server: how its tools are called. `ask` turns a tool, a file and a turn into a name and arguments."""

    wire: Wire
    ask: Callable[[str, str, int], tuple[str, Arguments]]
    folder: str


def measure(bench: Bench) -> list[Row]:
    try:
        bench.say("looking for the reference filesystem server (npm installs it once)")
        reference = install(os.path.join(bench.settings.home, ".cache", "toolyard", "bench"))
    except BenchFault as fault:
        return [skipped("Read, Write, Edit over stdio", _UNIT, str(fault))]
    rows = _in_one_place(bench, reference, bench.folder("calls"), "on disk", tools=("Read", "Write", "Edit"))
    if os.access(_MEMORY_FOLDER, os.W_OK):
        with tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER, prefix="toolyard-bench-") as memory:
            rows += _in_one_place(bench, reference, memory, "in memory", tools=("Write", "Edit"))
    return rows


def _in_one_place(bench: Bench, reference: Reference, folder: str, where: str, *, tools: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    with _sides(bench, reference, folder) as (ours, theirs):
        for tool in tools:
            bench.say(f"{tool} {where}, one at a time and {LANES} in flight")
            note = _note(tool, where, reference)
            figures = _figures(bench, tool, ours, theirs)
            one, many = figures["ours"], figures["ours, many"]
            rows.append(
                at_least_times(f"{tool} {where}, one at a time", _UNIT, one, figures["peer"], _FACTOR, note=note)
            )
            rows.append(beside(f"{tool} {where}, {LANES} in flight", _UNIT, many, figures["peer, many"]))
    return rows


def _note(tool: str, where: str, reference: Reference) -> str:
    peer = f"beside {reference.version} of the reference server"
    if tool == "Read":
        return peer
    synced = "ours syncs each write to the disk, the reference does not"
    return f"{peer}; {synced}" if where == "on disk" else f"{peer}; nothing to sync in memory"


@contextmanager
def _sides(bench: Bench, reference: Reference, folder: str) -> Generator[tuple[Side, Side]]:
    here, there = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
    for place in (here, there):
        os.makedirs(place)
        for lane in range(LANES):
            with open(os.path.join(place, _file(lane)), "w", encoding="utf-8") as file:
                file.write(_content(0))
    try:
        with Wire(bench.server(here)) as ours, Wire(reference.command(there)) as theirs:
            # Write refuses a file that was not read.
            ours.sequential("Read", [{"file_path": os.path.join(here, _file(lane))} for lane in range(LANES)])
            yield Side(ours, _our_call, here), Side(theirs, _their_call, there)
    finally:
        shutil.rmtree(here)
        shutil.rmtree(there)


def _figures(bench: Bench, tool: str, ours: Side, theirs: Side) -> dict[str, float]:
    contenders: dict[str, Measured] = {}
    for label, side in (("ours", ours), ("peer", theirs)):
        contenders[label] = _one_at_a_time(bench, tool, side)
        contenders[f"{label}, many"] = _many(bench, tool, side)
    return interleaved(contenders, bench.sizes.rounds)


def _even(calls: int) -> int:
    """Edits go there and back again, so that a round leaves the files as it found them."""
    return max(2, calls // 2 * 2)


def _one_at_a_time(bench: Bench, tool: str, side: Side) -> Measured:
    path = os.path.join(side.folder, _file(0))
    asked = [side.ask(tool, path, turn) for turn in range(_even(bench.sizes.calls))]
    name, calls = asked[0][0], [arguments for _, arguments in asked]
    return lambda: side.wire.sequential(name, calls)


def _many(bench: Bench, tool: str, side: Side) -> Measured:
    turns = _even(bench.sizes.calls // LANES)
    lanes = [
        [side.ask(tool, os.path.join(side.folder, _file(lane)), turn)[1] for turn in range(turns)]
        for lane in range(LANES)
    ]
    name = side.ask(tool, side.folder, 0)[0]
    return lambda: side.wire.in_flight(name, lanes)


def _our_call(tool: str, path: str, turn: int) -> tuple[str, Arguments]:
    arguments: dict[str, Any] = {"file_path": path}
    if tool == "Write":
        arguments["content"] = _content(turn)
    elif tool == "Edit":
        arguments |= {"old_string": _MARKS[turn % 2], "new_string": _MARKS[1 - turn % 2]}
    return tool, arguments


def _their_call(tool: str, path: str, turn: int) -> tuple[str, Arguments]:
    arguments: dict[str, Any] = {"path": path}
    if tool == "Write":
        arguments["content"] = _content(turn)
    elif tool == "Edit":
        arguments["edits"] = [{"oldText": _MARKS[turn % 2], "newText": _MARKS[1 - turn % 2]}]
    return _NAMES[tool], arguments


def _file(lane: int) -> str:
    return f"module{lane:02}.py"


def _content(turn: int) -> str:
    """About 4 kB of text with a mark in the middle. A Write leaves the mark as the next Edit expects it."""
    lines = [f"value_{line} = compute({line}, 'row number {line} of {turn % 2}')" for line in range(_FILE_LINES)]
    lines[_FILE_LINES // 2] = _MARKS[0]
    return "\n".join(lines) + "\n"

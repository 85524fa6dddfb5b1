"""What each call pays for safety: the path check, and the line in the audit log."""

from __future__ import annotations

import os

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most, beside
from benchmarks.rounds import interleaved, microseconds_each
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.actions import Action, Kind
from toolyard.core.events import CallOutcome, Event
from toolyard.storage.audit_log import AuditLog

_CHECK_MICROSECONDS = 30
_LINE_MICROSECONDS = 20
_DEPTH = 4


def measure_path_check(bench: Bench) -> list[Row]:
    bench.say("checking paths")
    workspace = bench.folder("paths")
    below = os.path.join(workspace, *(f"level{number}" for number in range(_DEPTH)))
    os.makedirs(below)
    path = os.path.join(below, "file.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("text\n")
    options = YardOptions(workspace, Config(), bench.settings, state_home=os.path.join(bench.scratch, "state"))
    with Yard.open(options) as yard:

        def check() -> None:
            spelled = yard.mounts.clean(path)
            yard.policy.decide(Action(Kind.READ, "Read", spelled, spelled))
            yard.mounts.find(spelled).handle.close()

        work = {
            "ours": check,
            "open": lambda: os.close(os.open(path, os.O_RDONLY)),
            "realpath": lambda: os.close(os.open(os.path.realpath(path), os.O_RDONLY)),
        }
        contenders = {name: microseconds_each(run, bench.sizes.loops) for name, run in work.items()}
        figures = interleaved(contenders, bench.sizes.rounds)
    note = "clean + policy + open beneath the handle + close; the peer is realpath, then open: a race"
    return [
        at_most("path check", "µs", figures["ours"], _CHECK_MICROSECONDS, peer=figures["realpath"], note=note),
        beside("path check beside a bare open", "µs", figures["ours"], figures["open"]),
    ]


def measure_audit_line(bench: Bench) -> list[Row]:
    bench.say("writing audit lines")
    event = Event(
        call="0123456789abcdef",
        surface="bench",
        agent="agent",
        session="bench",
        tool="Read",
        kind="read",
        target="/home/ada/project/src/package/module.py",
        decision="allow",
        reason="Inside the workspace.",
        outcome=CallOutcome.OK,
        code=0,
        milliseconds=1.234,
    )
    plain = os.open(os.path.join(bench.scratch, "plain.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with AuditLog.open(bench.folder("audit")) as log:
            work = {"ours": lambda: log.append(event), "peer": lambda: os.write(plain, b"x" * 400 + b"\n")}
            contenders = {name: microseconds_each(run, bench.sizes.loops) for name, run in work.items()}
            figures = interleaved(contenders, bench.sizes.rounds)
    finally:
        os.close(plain)
    note = "hash-chained and locked against other processes; the peer is one write of 401 bytes"
    return [at_most("audit line", "µs", figures["ours"], _LINE_MICROSECONDS, peer=figures["peer"], note=note)]

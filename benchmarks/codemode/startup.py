"""How light the beginnings are: `toolyard --help`, and what every run in the sandbox imports."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most
from benchmarks.rounds import Measured, interleaved, milliseconds

_HELP_MS = 300.0
_IMPORT_MS = 30.0
_BARE = "import time; print(time.process_time())"
_IMPORTING = "import time; started = time.process_time(); import {}; print(time.process_time() - started)"


def measure_light(bench: Bench) -> list[Row]:
    bench.say("starting toolyard --help and importing the runtime")
    contenders = {
        "help": milliseconds(lambda: _output("-m", "toolyard", "--help")),
        "python": milliseconds(lambda: _output("-c", "pass")),
        "import": _cpu_milliseconds(_IMPORTING.format("toolyard_runtime")),
        "calls": _cpu_milliseconds(_IMPORTING.format("toolyard_runtime.calls")),
        "bare": _cpu_milliseconds(_BARE),
    }
    figures = interleaved(contenders, bench.sizes.starts)
    whole, calls, bare = figures["help"], figures["calls"], figures["bare"]
    return [
        at_most("toolyard --help", "ms", whole, _HELP_MS, peer=figures["python"], note="the peer is python -c pass"),
        at_most(
            "import toolyard_runtime, processor time",
            "ms",
            figures["import"],
            _IMPORT_MS,
            note=f"with what calls tools {calls:.1f} ms; Python itself takes {bare:.1f} ms before it",
        ),
    ]


def _cpu_milliseconds(code: str) -> Measured:
    return lambda: float(_output("-c", code)) * 1e3


def _output(*arguments: str) -> str:
    done = subprocess.run((sys.executable, *arguments), check=True, capture_output=True, text=True)
    return done.stdout

"""What a run was measured on. Figures without it say nothing."""

from __future__ import annotations

import datetime as dt
import os
import platform
from dataclasses import dataclass

_CPU_FILE = "/proc/cpuinfo"
_CPU_KEY = "model name"


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: str
    cores: int
    kernel: str
    python: str
    load: float
    """The one-minute load average when the run began: what else the machine was doing."""
    date: str

    @property
    def summary(self) -> str:
        return (
            f"{self.date} · {self.cpu} · {self.cores} cores · kernel {self.kernel} · Python {self.python}"
            f" · load {self.load:.1f}"
        )


def describe() -> Machine:
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        python=platform.python_version(),
        load=round(os.getloadavg()[0], 2),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _cpu() -> str:
    try:
        with open(_CPU_FILE, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == _CPU_KEY:
                    return value.strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.machine()

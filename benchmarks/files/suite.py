"""`bench files`: everything that is promised about the file tools, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.benchmark import Sizes
from benchmarks.files import calls, checks, grep, startup, tokens
from benchmarks.machine import describe
from benchmarks.report import Report
from benchmarks.runner import Measures, measured
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "grep": grep.measure,
    "calls": calls.measure,
    "start": startup.measure,
    "path": checks.measure_path_check,
    "audit": checks.measure_audit_line,
    "tokens": tokens.measure,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind but npm's cache."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

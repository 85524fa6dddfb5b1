"""`bench files`: everything that is promised about the file tools, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import calling, checking, searching, starting, tokens
from toolyard.bench.bench import Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measures, measured
from toolyard.bench.report import Report
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "grep": searching.measure,
    "calls": calling.measure,
    "start": starting.measure,
    "path": checking.measure_path_check,
    "audit": checking.measure_audit_line,
    "tokens": tokens.measure,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind but npm's cache."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

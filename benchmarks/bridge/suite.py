"""`bench bridge`: what it costs a server to keep and to find the files of its client."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.benchmark import Sizes
from benchmarks.bridge import cache, through_server
from benchmarks.machine import describe
from benchmarks.report import Report
from benchmarks.runner import Measures, measured
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "hit": cache.measure_hit,
    "entries": cache.measure_entries,
    "batch": cache.measure_batch,
    "served": through_server.measure_served,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

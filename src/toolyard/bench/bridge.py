"""`bench bridge`: what it costs a server to keep and to find the files of its client."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import bridge_cache, bridge_served
from toolyard.bench.bench import Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measures, measured
from toolyard.bench.report import Report
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "hit": bridge_cache.measure_hit,
    "entries": bridge_cache.measure_entries,
    "batch": bridge_cache.measure_batch,
    "served": bridge_served.measure_served,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

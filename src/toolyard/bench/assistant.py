"""`bench assistant`: what a second opinion costs beside the model's own time, and that threads stay apart."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import assistant_calls, assistant_files, assistant_threads, assistant_waiting
from toolyard.bench.bench import Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measures, measured, with_models
from toolyard.bench.report import Report
from toolyard.config.settings import Settings
from toolyard.models.audience import FOR_ASSISTANT

MEASURES: Measures = {
    "start": assistant_calls.measure_start,
    "tokens": assistant_calls.measure_tokens,
    "overhead": with_models("overhead", assistant_calls.measure_overhead, FOR_ASSISTANT),
    "waiting": with_models("waiting", assistant_waiting.measure_waiting, FOR_ASSISTANT),
    "growth": with_models("growth", assistant_threads.measure_growth, FOR_ASSISTANT),
    "threads": with_models("threads", assistant_threads.measure_canaries, FOR_ASSISTANT),
    "files": with_models("files", assistant_files.measure_files, FOR_ASSISTANT),
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

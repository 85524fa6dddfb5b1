"""`bench assistant`: what a second opinion costs beside the model's own time, and that threads stay apart."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.assistant import calls, concurrent_calls, files, threads
from benchmarks.benchmark import Sizes
from benchmarks.machine import describe
from benchmarks.report import Report
from benchmarks.runner import Measures, measured, with_models
from toolyard.config.settings import Settings
from toolyard.models.error_wording import ASSISTANT_WORDING

MEASURES: Measures = {
    "start": calls.measure_start,
    "tokens": calls.measure_tokens,
    "overhead": with_models("overhead", calls.measure_overhead, ASSISTANT_WORDING),
    "waiting": with_models("waiting", concurrent_calls.measure_waiting, ASSISTANT_WORDING),
    "growth": with_models("growth", threads.measure_growth, ASSISTANT_WORDING),
    "threads": with_models("threads", threads.measure_canaries, ASSISTANT_WORDING),
    "files": with_models("files", files.measure_files, ASSISTANT_WORDING),
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

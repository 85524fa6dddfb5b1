"""Measures, one after the other, each in a scratch folder of its own that goes with it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping

from benchmarks.benchmark import Bench, Sizes
from benchmarks.report import Row, skipped
from toolyard.config.settings import Settings
from toolyard.core.errors import SystemFault
from toolyard.models.error_wording import BACKEND_WORDING, ErrorWording
from toolyard.models.lazy_import import require_library

Measure = Callable[[Bench], list[Row]]
Measures = Mapping[str, Measure]


def measured(
    measures: Measures, sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str]
) -> Iterator[Row]:
    """The rows of all measures, or of those named in `only`. Leaves nothing behind."""
    with tempfile.TemporaryDirectory(dir=settings.temp_dir, prefix="toolyard-bench-") as scratch:
        bench = Bench(sizes, scratch, settings, say)
        for name, measure in measures.items():
            if not only or name in only:
                yield from measure(dataclasses.replace(bench, scratch=bench.folder(name)))


def with_models(name: str, measure: Measure, audience: ErrorWording = BACKEND_WORDING) -> Measure:
    """The measure, or why no model can be asked."""

    def measure_or_skip(bench: Bench) -> list[Row]:
        try:
            require_library(audience.extra)
        except SystemFault as fault:
            return [skipped(name, "ms", str(fault))]
        return measure(bench)

    return measure_or_skip

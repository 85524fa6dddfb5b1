"""`bench files`: everything that is promised about the file tools, measured in one run."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Collection

from toolyard.bench import calling, checking, searching, starting, tokens
from toolyard.bench.bench import Bench, Sizes
from toolyard.bench.machine import describe
from toolyard.bench.report import Report, Row
from toolyard.config.settings import Settings

MEASURES: dict[str, Callable[[Bench], list[Row]]] = {
    "grep": searching.measure,
    "calls": calling.measure,
    "start": starting.measure,
    "path": checking.measure_path_check,
    "audit": checking.measure_audit_line,
    "tokens": tokens.measure,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind but npm's cache."""
    machine = describe()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=settings.temp_dir, prefix="toolyard-bench-") as scratch:
        bench = Bench(sizes, scratch, settings, say)
        for name, measure in MEASURES.items():
            if not only or name in only:
                rows += measure(dataclasses.replace(bench, scratch=bench.folder(name)))
    return Report(machine, tuple(rows))

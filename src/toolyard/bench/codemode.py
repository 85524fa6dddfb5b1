"""`bench codemode`: everything that is promised about the speed and cost of code mode, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import (
    codemode_attached,
    codemode_calls,
    codemode_finding,
    codemode_light,
    codemode_search,
    codemode_tools,
)
from toolyard.bench.bench import Bench, Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measure, Measures, measured
from toolyard.bench.report import Report, Row, skipped
from toolyard.bench.sandbox_subject import chosen
from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError


def _in_the_sandbox(name: str, measure: Measure) -> Measure:
    """The measure, or why there is no sandbox to measure in."""

    def measure_or_skip(bench: Bench) -> list[Row]:
        try:
            chosen()
        except SecurityError as error:
            return [skipped(name, "ms", str(error))]
        return measure(bench)

    return measure_or_skip


MEASURES: Measures = {
    "calls": _in_the_sandbox("calls", codemode_calls.measure_calls),
    "first": _in_the_sandbox("first", codemode_calls.measure_first_call),
    "compile": codemode_tools.measure_compile,
    "sync": codemode_tools.measure_sync,
    "attached": codemode_attached.measure_attached,
    "context": codemode_attached.measure_context,
    "finding": codemode_finding.measure_finding,
    "search": codemode_search.measure_search,
    "light": codemode_light.measure_light,
}
ELSEWHERE = Row(
    "others",
    "ms",
    note="measured elsewhere, not in this run, with 100 servers of 10 tools: FastMCP's code mode 0.7 to 2.3 s a call"
    " and 13 to 15 s to be ready; pydantic-ai's 3 to 11 ms a call, 607 tokens with tool search",
)


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), (*measured(MEASURES, sizes, settings, say, only), ELSEWHERE))

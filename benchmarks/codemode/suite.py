"""`bench codemode`: everything that is promised about the speed and cost of code mode, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.benchmark import Bench, Sizes
from benchmarks.codemode import attached_servers, calls, search, startup, tool_files, tool_lookup
from benchmarks.machine import describe
from benchmarks.report import Report, Row, skipped
from benchmarks.runner import Measure, Measures, measured
from benchmarks.sandbox.fixture import chosen
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
    "calls": _in_the_sandbox("calls", calls.measure_calls),
    "first": _in_the_sandbox("first", calls.measure_first_call),
    "compile": tool_files.measure_compile,
    "sync": tool_files.measure_sync,
    "attached": attached_servers.measure_attached,
    "context": attached_servers.measure_context,
    "finding": tool_lookup.measure_finding,
    "search": search.measure_search,
    "light": startup.measure_light,
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

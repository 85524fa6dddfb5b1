"""`bench sandbox`: everything that is promised about the sandbox's speed and size, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import sandbox_many, sandbox_runs, sandbox_served
from toolyard.bench.bench import Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measures, measured
from toolyard.bench.report import Report, Row, skipped
from toolyard.bench.sandbox_subject import chosen
from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError

MEASURES: Measures = {
    "warm": sandbox_runs.measure_warm,
    "cold": sandbox_runs.measure_cold,
    "calls": sandbox_served.measure_calls,
    "reads": sandbox_served.measure_reads,
    "agents": sandbox_many.measure_agents,
    "memory": sandbox_many.measure_memory,
}
ELSEWHERE = Row(
    "others",
    "ms",
    note="measured elsewhere, not in this run: Codex's sandboxed shell 132 ms, sandbox-runtime 541 ms a start,"
    " FastMCP's interpreter 6 to 19 ms warm",
)


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    try:
        chosen()
    except SecurityError as error:
        return Report(describe(), (skipped("sandbox", "ms", str(error)), ELSEWHERE))
    return Report(describe(), (*measured(MEASURES, sizes, settings, say, only), ELSEWHERE))

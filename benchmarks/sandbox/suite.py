"""`bench sandbox`: everything that is promised about the sandbox's speed and size, measured in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.benchmark import Sizes
from benchmarks.machine import describe
from benchmarks.report import Report, Row, skipped
from benchmarks.runner import Measures, measured
from benchmarks.sandbox import many_agents, single_runs, through_server
from benchmarks.sandbox.fixture import chosen
from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError

MEASURES: Measures = {
    "warm": single_runs.measure_warm,
    "cold": single_runs.measure_cold,
    "calls": through_server.measure_calls,
    "reads": through_server.measure_reads,
    "agents": many_agents.measure_agents,
    "memory": many_agents.measure_memory,
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

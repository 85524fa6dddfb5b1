"""`bench context`: what agents cost: the context of each, what a run adds to a turn, a hundred at once, servers."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.benchmark import Sizes
from benchmarks.context import many_agents, shared_servers, tokens, turn_overhead
from benchmarks.machine import describe
from benchmarks.report import Report
from benchmarks.runner import Measures, measured, with_models
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "tokens": tokens.measure_tokens,
    "turns": with_models("turns", turn_overhead.measure_turns),
    "agents": with_models("agents", many_agents.measure_agents),
    "servers": with_models("servers", shared_servers.measure_servers),
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

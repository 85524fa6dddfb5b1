"""`bench context`: what agents cost: the context of each, what a run adds to a turn, a hundred at once, servers."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import context_agents, context_servers, context_tokens, context_turns
from toolyard.bench.bench import Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measures, measured, with_models
from toolyard.bench.report import Report
from toolyard.config.settings import Settings

MEASURES: Measures = {
    "tokens": context_tokens.measure_tokens,
    "turns": with_models("turns", context_turns.measure_turns),
    "agents": with_models("agents", context_agents.measure_agents),
    "servers": with_models("servers", context_servers.measure_servers),
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

"""`bench context`: what agents cost: the context of each, what a run adds to each turn, and a hundred at once."""

from __future__ import annotations

from collections.abc import Callable, Collection

from toolyard.bench import context_agents, context_tokens, context_turns
from toolyard.bench.bench import Bench, Sizes
from toolyard.bench.machine import describe
from toolyard.bench.measuring import Measure, Measures, measured
from toolyard.bench.report import Report, Row, skipped
from toolyard.config.settings import Settings
from toolyard.core.errors import SystemFault
from toolyard.models.library import require_library


def _with_models(name: str, measure: Measure) -> Measure:
    """The measure, or why no model can be asked."""

    def measure_or_skip(bench: Bench) -> list[Row]:
        try:
            require_library()
        except SystemFault as fault:
            return [skipped(name, "ms", str(fault))]
        return measure(bench)

    return measure_or_skip


MEASURES: Measures = {
    "tokens": context_tokens.measure_tokens,
    "turns": _with_models("turns", context_turns.measure_turns),
    "agents": _with_models("agents", context_agents.measure_agents),
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    return Report(describe(), tuple(measured(MEASURES, sizes, settings, say, only)))

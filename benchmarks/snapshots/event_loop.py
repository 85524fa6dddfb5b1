"""How long the event loop stands still while snapshots are taken beside it, as a workspace really takes them."""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most
from benchmarks.snapshots.fixture import Tree, make_tree
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.calls import Call

_BEAT = 0.001
_MOST_BLOCKED_MS = 50.0
_SETTLE = 0.2


class Beats:
    """A task that wants to run every millisecond, and notes how long it was kept from that."""

    def __init__(self) -> None:
        self._gaps: list[float] = []
        self._last = 0.0

    async def run(self) -> None:
        self._last = time.perf_counter()
        while True:
            await asyncio.sleep(_BEAT)
            now = time.perf_counter()
            self._gaps.append(now - self._last - _BEAT)
            self._last = now

    def longest_ms(self) -> float:
        """Since it was last asked."""
        longest = max(self._gaps, default=0.0) * 1e3
        self._gaps.clear()
        return longest


async def _measured(yard: Yard, tree: Tree) -> dict[str, float]:
    beats = Beats()
    task = asyncio.create_task(beats.run())
    await asyncio.sleep(_SETTLE)
    figures = {"idle": beats.longest_ms()}
    started = time.perf_counter()
    await yard.dispatch(Call("Write", {"file_path": f"{tree.one}.new", "content": "new"}, "bench"))
    figures["write"] = (time.perf_counter() - started) * 1e3
    figures["first"] = beats.longest_ms()
    await asyncio.to_thread(yard.snapshots.flush)
    figures["after"] = beats.longest_ms()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return figures


def measure_loop(bench: Bench) -> list[Row]:
    tree = make_tree(bench, "tree", bench.sizes.tree_files)
    bench.say("an event loop beside snapshots")
    options = YardOptions(
        workspace=tree.path,
        config=Config.model_validate({"snapshots": {"watch": False}}),
        settings=bench.settings,
        state_home=os.path.join(bench.scratch, "state"),
    )
    with Yard.open(options) as yard:
        figures = asyncio.run(_measured(yard, tree))
    idle = f"{figures['idle']:.1f} ms without snapshots"
    return [
        at_most("event loop blocked by the first snapshot", "ms", figures["first"], _MOST_BLOCKED_MS, note=idle),
        at_most(
            "event loop blocked by a snapshot after a change", "ms", figures["after"], _MOST_BLOCKED_MS, note=idle
        ),
        Row("first Write, with its snapshot", "ms", figures["write"], note=tree.told),
    ]

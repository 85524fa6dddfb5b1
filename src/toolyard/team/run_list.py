"""Lists runs: task, end and whether they can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolyard.core.errors import ToolyardError
from toolyard.team.events import EndReason
from toolyard.team.paths import all_runs
from toolyard.team.store import RunStore

_OVER = frozenset({EndReason.ANSWERED.value, EndReason.CONSENSUS.value})


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run as its store describes it."""

    run: str
    began: float
    """Unix time in seconds."""
    task: str
    config: str
    ended: str
    """A value of `EndReason`; empty for a run that is active or was killed."""
    winner: str
    snapshot: str
    folder: str

    @property
    def is_over(self) -> bool:
        """Whether the run is complete and cannot be resumed."""
        return self.ended in _OVER


def list_runs(
    state_home: str, config: str | None = None, on_damage: Callable[[ToolyardError], None] = lambda _: None
) -> list[KnownRun]:
    """Returns the runs, newest first; only those of `config` if given. Calls `on_damage` for unreadable runs."""
    runs = [run for run in _known_runs(state_home, on_damage) if config is None or run.config == config]
    return sorted(runs, key=lambda run: run.began, reverse=True)


def read_run(folder: str) -> KnownRun:
    """Reads a run from its folder. Raises SystemFault."""
    with RunStore(folder) as store:
        result: dict[str, Any] = store.fact("result", {})
        return KnownRun(
            run=folder.rpartition("/")[2],
            began=store.required_fact("began"),
            task=store.fact("task", ""),
            config=store.fact("config", ""),
            ended=store.fact("ended", ""),
            winner=result.get("winner", ""),
            snapshot=result.get("snapshot", ""),
            folder=folder,
        )


def _known_runs(state_home: str, on_damage: Callable[[ToolyardError], None]) -> Iterator[KnownRun]:
    for folder in all_runs(state_home):
        try:
            yield read_run(folder)
        except ToolyardError as error:
            on_damage(error)

"""The runs that there are: what each was for, how it ended, and whether it can be resumed."""

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
    run: str
    began: float
    """Seconds since 1970."""
    task: str
    config: str
    ended: str
    """As `EndReason` spells it; empty for one that is under way or was killed."""
    winner: str
    snapshot: str
    folder: str

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to resume."""
        return self.ended in _OVER


def list_runs(
    state_home: str, config: str | None = None, on_damage: Callable[[ToolyardError], None] = lambda _: None
) -> list[KnownRun]:
    """The newest first; with `config` those of that file. Runs that cannot be read are given to `on_damage`."""
    runs = [run for run in _known_runs(state_home, on_damage) if config is None or run.config == config]
    return sorted(runs, key=lambda run: run.began, reverse=True)


def read_run(folder: str) -> KnownRun:
    """Raises SystemFault."""
    with RunStore(folder) as store:
        result: dict[str, Any] = store.fact("result", {})
        return KnownRun(
            run=folder.rpartition("/")[2],
            began=store.fact("began", 0.0),
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

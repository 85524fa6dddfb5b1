"""`run_team`: one task for the team of a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun

if TYPE_CHECKING:
    from toolyard.team.events import RunFinished, TeamEvent


async def run_team(
    config: Config | str | os.PathLike[str],
    task: str = "",
    *,
    on_event: Callable[[TeamEvent], None] | None = None,
    resume: str = "",
    state: str | os.PathLike[str] | None = None,
) -> RunFinished:
    """Runs a team of agents on a task and returns how the run ended.

    Args:
        config: The configuration, or the path of its file.
        task: What the team has to do. Left out with `resume`, which keeps its task.
        on_event: Called with each event of the run, in order, on the running loop.
        resume: The id of a run, or the beginning of it, that goes on where it stopped.
        state: The folder for runs, snapshots and audit logs. Default: the user's state folder.

    Returns:
        The last event: `ended` and `why`, the `winner`, its `text`, and what the run `spent`.

    Raises:
        ConfigError: The configuration cannot be run.
        ToolError: There is no such run to resume, or another run works in the same folders.

    Example:
        ```python
        import asyncio

        from toolyard import run_team

        finished = asyncio.run(run_team("team.yaml", "Find the slowest test and speed it up"))
        print(finished.text)
        ```

    """
    chosen = config if isinstance(config, Config) else load_config(os.fspath(config))
    options = RunOptions(chosen, task, state_home=None if state is None else os.fspath(state), resume=resume)
    return await TeamRun(options, on_event or _ignore_event).go()


def _ignore_event(event: TeamEvent) -> None:
    """Discards an event."""

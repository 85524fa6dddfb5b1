"""Syncs the team's servers before the first turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from toolyard.app.execution_mode import tool_injection_for
from toolyard.app.yard_options import YardOptions
from toolyard.team.paths import root_of, workspace_of

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.team.options import RunOptions

_SHOWN_REASON = 300


def sync_servers(
    config: Config, options: RunOptions, notify: Callable[[str], None], stop: Future[None] | None = None
) -> None:
    """Asks the servers that never answered, and calls `notify` for failures. Blocks. Raises ToolyardError.

    Cancelling `stop` ends it with CancelledError.
    """
    injection = tool_injection_for(options.config, config.agents[0].id)
    if not injection.files_first and not config.has_servers and not config.toolyard.available_custom_tools:
        return
    from toolyard.app.ensure_synced import sync_before_run  # imports everything that servers need

    # With several agents, all servers of the team are synced, not those of one agent.
    is_one = len(config.agents) == 1
    here = YardOptions(
        workspace=workspace_of(config, config.agents[0]) if is_one else root_of(config),
        config=config,
        settings=options.settings,
        agent=config.agents[0].id if is_one else None,
        state_home=options.state_home,
        injection=injection,
    )
    report = sync_before_run(
        here, lambda server, error: notify(f"{server}: {_first_line(error)}") if error else None, stop
    )
    for name, why in report.failed:
        if name not in report.asked:  # the others were reported while they were asked
            notify(f"{name}: {_first_line(why)}")


def _first_line(why: str) -> str:
    return os.linesep.join(why.splitlines()[:1])[:_SHOWN_REASON]

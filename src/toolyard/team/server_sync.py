"""Before the first turn: the servers of the team are known, whichever of its agents uses them."""

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
    """Ask those that never answered, and tell of those that cannot be asked. Blocks. Raises ToolyardError.

    Whoever cancels `stop` ends it, with CancelledError.
    """
    injection = tool_injection_for(options.config, config.agents[0].id)
    if not injection.files_first and not config.has_servers and not config.toolyard.available_custom_tools:
        return
    from toolyard.app.ensure_synced import sync_before_run  # with it comes all that servers need

    # One of several agents is not asked for its own servers alone; a single one has no others.
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
        if name not in report.asked:  # those were told when they were asked
            notify(f"{name}: {_first_line(why)}")


def _first_line(why: str) -> str:
    return os.linesep.join(why.splitlines()[:1])[:_SHOWN_REASON]

"""Snapshots of writable context paths: each has its own AutoSnapshots and store.

The store is the one that the folder has as a workspace: `toolyard snapshot list --workspace PATH` shows what agents
of other workspaces changed there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.config.snapshots import Snapshots
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import Access
from toolyard.policy.policy import Policy
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots, SnapshotLocation
from toolyard.workspace.agent_paths import authors_folder, resolve_agent_paths


def context_locations(
    policy: Policy, settings: Settings, state_home: str, agent: str
) -> tuple[SnapshotLocation, ...]:
    """Returns the folders beside the workspace that an agent may write, and where their snapshots go."""
    roots = {os.path.realpath(entry.path) for entry in policy.context if entry.access is Access.WRITE}
    folders = sorted(root for root in roots if os.path.isdir(root) and not is_beneath(root, policy.workspace))
    homes = ((root, resolve_agent_paths(Config(), root, None, settings, state_home)) for root in folders)
    return tuple(
        SnapshotLocation(
            root, home.snapshots_folder, agent, is_context_path=True, authors_folder=authors_folder(home.state, agent)
        )
        for root, home in homes
    )


def context_auto_snapshots(
    locations: Sequence[SnapshotLocation], section: Snapshots, log: Callable[[str], None]
) -> tuple[AutoSnapshots, ...]:
    """Creates the AutoSnapshots of each location."""
    return tuple(AutoSnapshots(place, section, log) for place in locations)

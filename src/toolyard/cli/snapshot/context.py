"""The options that the commands of `toolyard snapshot` share, and the snapshots they work on."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Generator
from dataclasses import dataclass

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.workspace_group import workspace_command
from toolyard.cli.common.workspace_lookup import (
    WorkspaceData,
    WorkspaceOptions,
    require_agent,
    resolve_data_workspace,
)
from toolyard.cli.snapshot import output as printing
from toolyard.core.agent_folder_names import AGENTS, WORKSPACE
from toolyard.core.errors import ConfigError, ToolError, ToolyardError, ValidationError
from toolyard.core.events import CallOutcome
from toolyard.core.paths import relative_to
from toolyard.snapshots import LATEST, DiffLimits, RebuildResult, Snapshot, SnapshotStore
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
from toolyard.snapshots.service.history import SnapshotHistory
from toolyard.workspace.agent_paths import UNNAMED_AGENT
from toolyard.workspace.layout import MEMORY, TASKS

DIFF_LIMITS = DiffLimits(chars_each=200_000, chars=20_000_000)
all_option = click.option("--all", "wants_all", is_flag=True, help="Include changes inside .git folders.")
git_option = click.option("--with-git", is_flag=True, help="Restore repositories (.git) as well.")
_WHO = "The agent whose workspace is meant, if several are configured."
_EXAMPLES = """\b
Examples:
  toolyard snapshot create --reason "before the rewrite"
  toolyard snapshot list
  toolyard snapshot diff                    changes since the newest
  toolyard snapshot diff 3f2a 81bc --stat   between two, by id prefixes
  toolyard snapshot diff latest~1           from the one before the newest
  toolyard snapshot restore 3f2a src/app.py --dry-run
  toolyard snapshot undo                    back to the state before the last changes
"""


@click.group(epilog=_EXAMPLES)
def snapshot() -> None:
    """Take, compare and restore snapshots of a workspace."""


@dataclass(frozen=True, slots=True)
class SnapshotContext:
    """An open workspace and its snapshots."""

    yard: Yard
    snapshots: AutoSnapshots
    full_history: SnapshotHistory
    rebuilt: RebuildResult | None = None
    """The result of rebuilding the index, if that was requested."""

    @property
    def history(self) -> SnapshotHistory:
        """The history. Raises ConfigError in a team's folder without its configuration, if no agent was named."""
        root = self.snapshots.location.root
        if (
            not self.yard.options.config.agents
            and (team := _team_agents(root))
            and not self.snapshots.store.list(root)
        ):
            one = f"--config FILE --agent {shlex.quote(team[0])}"
            raise ConfigError(
                f"{root} is the folder of a team ({', '.join(team)}) and has no snapshots of its own.",
                hint=f"Pass the team's configuration and one of its agents: {one}. "
                "For this folder only, take one with `toolyard snapshot create`.",
            )
        return self.full_history

    @property
    def author(self) -> str:
        """The author of new snapshots: a configured or named agent, else the user."""
        return "" if self.snapshots.location.agent == UNNAMED_AGENT else self.snapshots.location.agent

    def get_snapshot(self, name: str, way: str) -> Snapshot:
        """Returns a snapshot of any agent. If the user passed a path instead, the error suggests the command
        `way`.
        """
        try:
            return self.history.get(name, any_folder=True)
        except ToolyardError as error:
            if not name or not os.path.lexists(os.path.join(self.snapshots.location.root, name)):
                raise
            problem = f"{name} is a path in the workspace, not a snapshot"
            raise ValidationError.of("snapshot", problem, hint=f"Did you mean `toolyard snapshot {way}`?") from error

    def is_from_peer(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot belongs to another agent of the same layout."""
        return snapshot.root != self.snapshots.location.root and not set(self.yard.home.agents).isdisjoint(
            snapshot.agents
        )

    def own_snapshot(self, name: str) -> Snapshot:
        """Returns a snapshot of this workspace. Raises ToolError with the owner for any other."""
        found = self.get_snapshot(name, f"restore {LATEST} {shlex.quote(name)}")
        if found.root == self.snapshots.location.root:
            return found
        whose = f"{found.agent}'s" if self.is_from_peer(found) else f"of {found.root}"
        flag = (
            f"--agent {shlex.quote(found.agents[0])}"
            if self.is_from_peer(found)
            else f"--workspace {shlex.quote(found.root)}"
        )
        raise ToolError(
            f"Snapshot {found.id} is {whose}, not of this workspace.",
            hint=f"Restore it there: `toolyard snapshot restore {found.id} {flag}`",
        )

    def record_action(self, description: str) -> None:
        """Records an action of the user in the audit log."""
        self.yard.record("snapshot", description, CallOutcome.OK)


command = workspace_command(snapshot, who=_WHO, state="The folder for snapshots, outside every workspace.")
"""Adds a command to the group."""


@contextlib.contextmanager
def open_snapshots(
    where: WorkspaceOptions, *, acts_as_agent: bool = True, adds: bool = False, rebuild: bool = False
) -> Generator[SnapshotContext]:
    """Opens the snapshots of the chosen workspace. Without `acts_as_agent`, all of several agents may be meant."""
    resolved = resolve_data_workspace(WorkspaceData.SNAPSHOTS, where, acts_as_agent=acts_as_agent, adds=adds)
    options = YardOptions(
        workspace=resolved.workspace, config=resolved.config, agent=where.agent, state_home=where.state
    )
    with Yard.open(options) as yard:
        everybody = yard.home.has_layout and not yard.home.is_member
        snapshots = yard.snapshots
        rebuilt = None
        if rebuild:
            rebuilt = SnapshotStore.rebuild(snapshots.location.folder, printing.progress_ticker("Rebuilding"))
            printing.print_rebuilt(rebuilt)
        if where.agent is not None:
            taken_by = (agent for each in snapshots.store.list(snapshots.location.root) for agent in each.agents)
            require_agent(resolved.config, yard.home, where.agent, taken_by, adds=adds)
        yield SnapshotContext(
            yard, snapshots, SnapshotHistory(snapshots.store, None if everybody else snapshots.location.root), rebuilt
        )


def _team_agents(root: str) -> list[str]:
    """Returns the agents that have the folders of a layout here."""
    agents = os.path.join(root, AGENTS)
    try:
        names = sorted(os.listdir(agents))
    except OSError:
        return []
    parts = (WORKSPACE, MEMORY, TASKS)
    return [name for name in names if all(os.path.isdir(os.path.join(agents, name, part)) for part in parts)]


def snapshot_path(path: str, root: str) -> bytes:
    """Returns a path of the command line, absolute or relative to the workspace, as snapshots store it."""
    found = relative_to(os.path.normpath(os.path.join(root, path)), root)
    if found is None:
        raise ValidationError.of("path", f"{path} is outside the workspace", hint=f"Name a path below {root}.")
    return b"" if found == "." else os.fsencode(found)

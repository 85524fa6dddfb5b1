"""`toolyard share`: list what agents share, merge a peer's files, and show where merged files came from.

Exit codes: 0 success, 1 failure or a merge with conflicts, 2 wrong usage. A merge runs as the agent whose workspace
it changes, under that agent's policy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Generator
from typing import Any

import click

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.prompts import terminal_asker
from toolyard.cli.common.undo_hint import undo_hint
from toolyard.cli.common.workspace_group import workspace_command
from toolyard.cli.common.workspace_lookup import WorkspaceData, WorkspaceOptions, resolve_data_workspace
from toolyard.config.models import Config
from toolyard.core.calls import Call
from toolyard.core.errors import ConfigError
from toolyard.core.paths import relative_to
from toolyard.core.text import printable
from toolyard.sharing.manifest import PublicationManifest
from toolyard.sharing.peers import Peers
from toolyard.sharing.service import SharingService
from toolyard.snapshots.service.format import pluralize, relative_age
from toolyard.tools.shared_files import UNDO, merge_origins, origin_line, peer_fields

FAILED = 1
_NS = 1_000_000_000
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_HEADINGS = ("--- ", "+++ ")
_EXAMPLES = """\b
Examples:
  toolyard share list --config team.yaml
  toolyard share diff agent_b src/app.py --agent agent_a
  toolyard share merge agent_b "**/*.md" --agent agent_a
  toolyard share origin src/app.py --agent agent_a
"""


@click.group(epilog=_EXAMPLES)
def share() -> None:
    """See what agents share with each other, and merge it."""


command = workspace_command(
    share, who="The agent that lists or merges.", state="The folder for snapshots, outside every workspace."
)


@command("list", "toolyard share list --config team.yaml", "toolyard share list --config team.yaml --agent agent_a")
def list_peers(where: WorkspaceOptions, *, wants_json: bool) -> None:
    """List the agent's peers: the folder and snapshot of their work, and what changed since the agent last looked.

    For a team without --agent, lists what each agent has shared, and when.
    """
    with _open_yard(where, acts_as_agent=False) as yard:
        if yard.home.has_layout and not yard.home.is_member:
            _show_overview(yard, wants_json=wants_json)
            return
        sharing = _require_sharing(yard)
        peers = [peer_fields(sharing, peer, marks_seen=False) for peer in sharing.peers.agents]
    lines = [peer.pop("line") for peer in peers]
    if wants_json:
        _print_json(peers)
    else:
        _print_lines(lines)


@command("merge", "toolyard share merge agent_b src README.md --agent agent_a --dry-run")
@click.argument("peer")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--ours", is_flag=True, help="Resolve conflicts with the agent's lines.")
@click.option("--theirs", is_flag=True, help="Resolve conflicts with the peer's lines.")
def merge(
    where: WorkspaceOptions,
    *,
    peer: str,
    paths: tuple[str, ...],
    dry_run: bool,
    ours: bool,
    theirs: bool,
    wants_json: bool,
) -> None:
    """Merge PATHs of PEER (files, folders, globs; "**" for all) into the agent's workspace, by three-way merge."""
    if ours and theirs:
        raise click.UsageError("Pass either --ours or --theirs, not both.")
    with _open_yard(where) as yard:
        _require_sharing(yard)
        arguments: dict[str, Any] = {"peer": peer, "paths": list(paths), "dry_run": dry_run}
        if ours or theirs:
            arguments["prefer"] = "ours" if ours else "theirs"
        call = Call("shared_merge", arguments, surface="cli", agent=yard.agent, ask=terminal_asker())
        result = asyncio.run(yard.dispatch(call))
    if wants_json:
        _print_json(result.structured)
    else:
        facts = result.structured
        _print_lines([line for line in result.text.split("\n") if not line.startswith(UNDO)])
        if facts["undo"]:
            click.echo(undo_hint(facts["before"], facts["undo"]))
    if result.structured["conflicts"] and not dry_run:
        sys.exit(FAILED)


@command("diff", "toolyard share diff agent_b src --agent agent_a")
@click.argument("peer")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
def diff(where: WorkspaceOptions, *, peer: str, paths: tuple[str, ...], wants_json: bool) -> None:
    """Show what merging PATHs of PEER (default: everything) would change in the agent's files. Changes nothing."""
    with _open_yard(where) as yard:
        _require_sharing(yard)
        arguments = {"peer": peer, "paths": list(paths) or ["**"], "dry_run": True, "diff": True}
        call = Call("shared_merge", arguments, surface="cli", agent=yard.agent, ask=terminal_asker())
        facts = asyncio.run(yard.dispatch(call)).structured
    if wants_json:
        _print_json(facts)
        return
    for line in (facts["diff"] or "A merge would change nothing.").splitlines():
        escaped = "\t".join(map(printable, line.split("\t")))
        is_heading = line.startswith(_HEADINGS)
        click.echo(click.style(escaped, bold=is_heading or None, fg=None if is_heading else _COLOURS.get(line[:1])))


@command("origin", "toolyard share origin src/app.py --agent agent_a")
@click.argument("path", required=False, default="")
def origin(where: WorkspaceOptions, *, path: str, wants_json: bool) -> None:
    """Show the origin of merged files, or of PATH only: the agent, the snapshot and the time."""
    with _open_yard(where) as yard:
        found = merge_origins(_require_sharing(yard), _workspace_path(path, yard))
    if wants_json:
        _print_json(found)
    else:
        nothing = f"{path} was not merged from another agent." if path else "Nothing was merged here yet."
        _print_lines([origin_line(one) for one in found] or [nothing])


def _show_overview(yard: Yard, *, wants_json: bool) -> None:
    """Prints what every agent has shared."""
    peers = Peers(yard.home.shared_folder, yard.home.agents)
    notes = [(agent, peers.manifest_of(agent)) for agent in peers.agents]
    if wants_json:
        _print_json([_overview_fields(agent, peers.folder_of(agent), note) for agent, note in notes])
        return
    width = max(len(agent) for agent in peers.agents)
    for agent, note in notes:
        text = "has shared nothing yet"
        if note is not None:
            last = note.steps[-1] if note.steps else None
            changed = f", {pluralize(last.total, 'file')} changed" if last is not None and last.total else ""
            text = f"{peers.folder_of(agent)}  (snapshot {note.snapshot}, {relative_age(note.time_ns)}{changed})"
        click.echo(printable(f"{agent:<{width}}  {text}"))


def _overview_fields(agent: str, path: str, note: PublicationManifest | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"agent": agent, "path": path, "snapshot": note.snapshot if note is not None else ""}
    if note is not None:
        fields["age_seconds"] = round(max(time.time() - note.time_ns / _NS, 0.0), 1)
        fields["files"] = list(note.steps[-1].paths) if note.steps else []
    return fields


@contextlib.contextmanager
def _open_yard(where: WorkspaceOptions, *, acts_as_agent: bool = True) -> Generator[Yard]:
    resolved = resolve_data_workspace(WorkspaceData.SHARED, where, acts_as_agent=acts_as_agent)
    config = _without_tool_filters(resolved.config)
    options = YardOptions(
        resolved.workspace, config, agent=where.agent, toolset=Toolset.WORKSPACE, state_home=where.state
    )
    with Yard.open(options) as yard:
        yield yard


def _without_tool_filters(config: Config) -> Config:
    """Returns the configuration without the agents' tool lists, which limit models, not the user."""
    no_filters = {"allowed_tools": (), "exclude_tools": ()}
    agents = [
        agent.model_copy(update={"backend": agent.backend.model_copy(update=no_filters)}) for agent in config.agents
    ]
    return config.model_copy(update={"agents": tuple(agents)})


def _require_sharing(yard: Yard) -> SharingService:
    if yard.sharing is None:
        source = yard.options.config.source or ""
        needed = "Configure `toolyard.workspace` and at least two `agents`"
        raise ConfigError(
            "there are no other agents to share with.",
            where=source,
            hint=f"{needed}." if source else f"{needed}; no configuration was found: pass the team's with --config.",
        )
    return yard.sharing


def _workspace_path(path: str, yard: Yard) -> str:
    """Returns a path relative to the workspace."""
    if not path:
        return ""
    absolute = os.path.normpath(os.path.join(yard.home.workspace, path))
    return relative_to(absolute, yard.home.workspace) or path


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def _print_lines(lines: list[str]) -> None:
    for text in lines:
        for line in text.split("\n"):
            click.echo(printable(line))

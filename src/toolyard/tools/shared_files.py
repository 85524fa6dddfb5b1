"""shared_list, shared_read and shared_merge: list, read and merge what other agents have published."""

from __future__ import annotations

import json
import os
import time
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.agent_folder_names import folder_name
from toolyard.core.calls import Result, Text
from toolyard.core.errors import ValidationError
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import STRINGS, Arguments, Tool, output_schema
from toolyard.files.os_errors import printable_name
from toolyard.sandbox.output_capture import truncate_middle
from toolyard.sharing.conflict_markers import Side
from toolyard.sharing.manifest import PublicationManifest
from toolyard.sharing.merge import MergeOutcome
from toolyard.sharing.notifications import describe_step
from toolyard.sharing.path_selection import git_pull_command
from toolyard.sharing.service import SharingService
from toolyard.snapshots.diff.text_diff import DiffLimits
from toolyard.snapshots.service.format import change_line
from toolyard.tools.read import READ, ReadArguments, read
from toolyard.tools.shared_merge import MergeReport, PeerMerge, find_peer

UNDO = "To undo it, "
_MAX_LISTED_FILES = 20
_MAX_ORIGINS = 200
_SHORT = 8
_NANOSECONDS = 1e9
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LISTS = {
    MergeOutcome.MERGED: "merged",
    MergeOutcome.ADDED: "added",
    MergeOutcome.REMOVED: "removed",
    MergeOutcome.CONFLICT: "conflicts",
    MergeOutcome.KEPT: "kept",
    MergeOutcome.UNCHANGED: "unchanged",
}
_LIST_TITLES = {
    "merged": "Merged",
    "added": "Added",
    "removed": "Removed",
    "conflicts": "Conflicts",
    "kept": "Kept unchanged",
    "unchanged": "The same on both sides",
}

Peer = Annotated[str, Field(description="The other agent's id", min_length=1, max_length=200)]


class SharedListArguments(Arguments):
    provenance: Annotated[bool, Field(description="Also where your merged files came from")] = False


class SharedReadArguments(Arguments):
    peer: Peer
    path: Annotated[str, Field(description="Relative to the peer's workspace")]
    offset: Annotated[int | SkipJsonSchema[None], Field(description="First line, from 1")] = None
    limit: Annotated[Annotated[int, Field(ge=1)] | SkipJsonSchema[None], Field(description="Number of lines")] = None


class SharedMergeArguments(Arguments):
    peer: Peer
    paths: Annotated[
        list[str],
        Field(description='Files, folders or globs of the peer; "**" is all', min_length=1, max_length=1_000),
    ]
    dry_run: Annotated[bool, Field(description="Only say what would be done")] = False
    diff: Annotated[bool, Field(description="Also show the changes")] = False
    prefer: Annotated[
        Literal["ours", "theirs"] | SkipJsonSchema[None], Field(description="Settle conflicts by this side")
    ] = None


def shared_list(arguments: SharedListArguments, ctx: CallContext) -> Result:
    """Runs the shared_list tool."""
    sharing = ctx.sharing_service
    sharing.catch_up()
    peers = [peer_fields(sharing, agent, marks_seen=True) for agent in sharing.peers.agents]
    lines = [peer.pop("line") for peer in peers] or ["There are no other agents."]
    facts: dict[str, Any] = {"peers": peers}
    if arguments.provenance:
        facts["provenance"] = merge_origins(sharing, "")
        lines += [origin_line(origin) for origin in facts["provenance"]] or ["Nothing was merged yet."]
    return Result((Text("\n".join(lines)),), facts)


def peer_fields(sharing: SharingService, agent: str, *, marks_seen: bool) -> dict[str, Any]:
    """Returns the fields that describe a peer, with a summary in `line`.

    `marks_seen` records that the agent saw it.
    """
    place = f"{sharing.prefix}/{folder_name(agent)}"
    note = sharing.peers.manifest_of(agent)
    if note is None:
        line = f"{agent} has shared nothing yet."
        return {"agent": agent, "path": place, "snapshot": "", "changed": 0, "files": [], "line": line}
    looked = sharing.provenance.last_seen_snapshot(sharing.paths.agent, agent)
    step = note.changes_since(looked) if looked else None
    if marks_seen:
        sharing.provenance.record_seen_snapshot(sharing.paths.agent, agent, note.snapshot)
    age = max(time.time() - note.time_ns / _NANOSECONDS, 0.0)
    changes = "Nothing changed since you last looked."
    if not looked:
        changes = "You have not looked at it before."
    elif step is not None:
        changes = f"Since you last looked, {describe_step(agent, step, sharing.prefix)}."
    return {
        "agent": agent,
        "path": place,
        "snapshot": note.snapshot,
        "age_seconds": round(age, 1),
        "changed": -1 if step is not None and step.total is None else step.total if step is not None else 0,
        "files": list(step.paths[:_MAX_LISTED_FILES]) if step is not None else [],
        "line": f"{agent}: {place} (snapshot {note.snapshot[:_SHORT]}, {_age_text(age)} old). {changes}",
    }


def _age_text(seconds: float) -> str:
    for size, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{seconds:.0f} s"


def shared_read(arguments: SharedReadArguments, ctx: CallContext) -> Result:
    """Runs the shared_read tool."""
    sharing = ctx.sharing_service
    sharing.catch_up()
    agent, note = find_peer(sharing, arguments.peer)
    path = os.path.normpath(arguments.path.lstrip("/") or ".")
    if path.startswith(".."):
        raise ValidationError.of("path", "goes up with ..", hint="Name a file of the peer's workspace.")
    wanted = f"{sharing.peers.folder_of(agent)}/{path}"
    result = read(ReadArguments(file_path=wanted, offset=arguments.offset, limit=arguments.limit), ctx)
    return Result(result.parts, {**result.structured, **_peer_facts(agent, note)})


def _peer_facts(agent: str, note: PublicationManifest) -> dict[str, Any]:
    return {"peer": agent, "snapshot": note.snapshot}


def shared_merge(arguments: SharedMergeArguments, ctx: CallContext) -> Result:
    """Runs the shared_merge tool."""
    ctx.require_thread()
    ctx.sharing_service.catch_up()
    merge = PeerMerge(ctx, ctx.sharing_service, arguments.peer)
    prefer = Side(arguments.prefer) if arguments.prefer else None
    report = merge.run(arguments.paths, dry_run=arguments.dry_run, prefer=prefer)
    result = _merge_result(report, ctx.sharing_service.prefix, dry_run=arguments.dry_run)
    if not arguments.diff:
        return result
    changes = merge.changes(report, DiffLimits())
    diff = "\n".join(f"{change_line(change)}\n{change.text}".rstrip() for change in changes)
    text = truncate_middle("\n".join(filter(None, (result.text, diff))), ctx.limits.output_chars)
    return Result((Text(text),), {**result.structured, "diff": diff})


def _merge_result(report: MergeReport, prefix: str, *, dry_run: bool) -> Result:
    lists: dict[str, list[dict[str, str]]] = {name: [] for name in _LISTS.values()}
    for item in report.items:
        entry = {"path": printable_name(os.fsdecode(item.path)), "why": item.decision.why}
        if item.path in report.written:
            entry["written"] = printable_name(report.written[item.path])
        lists[_LISTS[item.decision.outcome]].append(entry)
    title = f"{'Would merge' if dry_run else 'Merged'} from {report.peer}, snapshot {report.theirs.id[:_SHORT]}:"
    lines = [title, *(line for name, entries in lists.items() for line in _entry_lines(name, entries))]
    lines += _repository_lines(report, f"{prefix}/{folder_name(report.peer)}")
    undo = [printable_name(path) for path in report.undo]
    if undo:
        lines.append(f"{UNDO}restore snapshot {report.before.id} with paths {json.dumps(undo, ensure_ascii=False)}.")
    facts: dict[str, Any] = {
        **_report_facts(report),
        "dry_run": dry_run,
        "undo": undo,
        "repositories": [printable_name(path) or "." for path in report.repositories],
        **{name: entries if name != "unchanged" else len(entries) for name, entries in lists.items()},
    }
    return Result((Text("\n".join(lines)),), facts)


def _repository_lines(report: MergeReport, peer_folder: str) -> list[str]:
    """Returns one line about all repositories whose .git was not merged."""
    if not report.repositories:
        return []
    total = len(report.repositories)
    first = "/".join(filter(None, (peer_folder, printable_name(report.repositories[0]))))
    repositories = "1 repository" if total == 1 else f"{total} repositories"
    how = f"Take commits with git, in a repository of yours: {git_pull_command(first)}"
    return [f"Left alone: the .git of {repositories}. {how}"]


def _report_facts(report: MergeReport) -> dict[str, Any]:
    return {"peer": report.peer, "snapshot": report.theirs.id, "before": report.before.id}


def _entry_lines(name: str, entries: list[dict[str, str]]) -> list[str]:
    if not entries:
        return []
    if name == "unchanged":
        return [f"{_LIST_TITLES[name]}: {len(entries)}"]
    lines = [f"{_LIST_TITLES[name]}:"]
    for entry in entries[:_MAX_LISTED_FILES]:
        there = f" -> {entry['written']}" if "written" in entry else ""
        lines.append(f"  {entry['path']}{there}" + (f" ({entry['why']})" if entry["why"] else ""))
    if len(entries) > _MAX_LISTED_FILES:
        lines.append(f"  ... and {len(entries) - _MAX_LISTED_FILES} more")
    return lines


def merge_origins(sharing: SharingService, path: str) -> list[dict[str, Any]]:
    """Returns where this agent's files came from, the newest merge first; for one path, or for all."""
    found = sharing.provenance.origins_of(sharing.paths.agent, os.fsencode(path) if path else None)
    return [
        {
            "path": printable_name(os.fsdecode(one.path)),
            "peer": one.peer,
            "snapshot": one.snapshot,
            "digest": one.digest.hex(),
            "outcome": one.outcome,
            "time": one.time_ns / _NANOSECONDS,
        }
        for one in found[:_MAX_ORIGINS]
    ]


def origin_line(origin: dict[str, Any]) -> str:
    """Describes one origin in a line."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(origin["time"]))
    return f"{origin['path']}: {origin['outcome']} from {origin['peer']}, snapshot {origin['snapshot']}, {when}"


_READ_OUTPUT: dict[str, Any] = {
    **READ.output,
    "properties": {**READ.output["properties"], "peer": {"type": "string"}, "snapshot": {"type": "string"}},
    "required": [*READ.output["required"], "peer", "snapshot"],
}
_ENTRY = output_schema(("written",), path="string", why="string", written="string")
_ENTRIES: dict[str, Any] = {"type": "array", "items": _ENTRY}
_PEER = output_schema(
    ("age_seconds",),
    agent="string",
    path="string",
    snapshot="string",
    age_seconds="number",
    changed="integer",
    files=STRINGS,
)
_ORIGIN = output_schema(
    path="string", peer="string", snapshot="string", digest="string", outcome="string", time="number"
)

SHARED_LIST = Tool(
    name="shared_list",
    description="The other agents, where their work is, and what they changed since you last looked.",
    arguments=SharedListArguments,
    output=output_schema(
        ("provenance",),
        peers={"type": "array", "items": _PEER},
        provenance={"type": "array", "items": _ORIGIN},
    ),
    run=shared_list,
    kind="read",
)
SHARED_READ = Tool(
    name="shared_read",
    description="Read a file as another agent last shared it.",
    arguments=SharedReadArguments,
    output=_READ_OUTPUT,
    run=shared_read,
    kind="read",
)
SHARED_MERGE = Tool(
    name="shared_merge",
    description=(
        "Bring files of another agent into your workspace by three-way merge. Conflicts are marked in the text; "
        "the result says how to undo it."
    ),
    arguments=SharedMergeArguments,
    output=output_schema(
        ("diff",),
        diff="string",
        peer="string",
        snapshot="string",
        before="string",
        dry_run="boolean",
        undo=STRINGS,
        repositories=STRINGS,
        merged=_ENTRIES,
        added=_ENTRIES,
        removed=_ENTRIES,
        conflicts=_ENTRIES,
        kept=_ENTRIES,
        unchanged="integer",
    ),
    run=shared_merge,
    kind="write",
    read_only=False,
    destructive=True,
)
SHARING_TOOLS: list[Tool[Any]] = [SHARED_LIST, SHARED_READ, SHARED_MERGE]

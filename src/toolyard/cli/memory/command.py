"""`toolyard memory`: list, search and change what agents remember between sessions.

Exit codes: 0 success, 1 nothing matches or a file could not be read (the readable part is printed), 2 wrong usage.
Texts of agents are escaped before they are printed.
"""

from __future__ import annotations

from typing import Any

import click

from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.memory import edit, show
from toolyard.cli.memory.context import command, echo_json, exit_if_incomplete, memory, one_line, open_memories
from toolyard.core.errors import ToolyardError
from toolyard.core.text import printable
from toolyard.memory.agent_memories import AgentMemories
from toolyard.memory.memory import FACTS, HISTORY, PATTERNS, PREFERENCES
from toolyard.memory.search import entries_of, grep_agents, search_agents

__all__ = ["edit", "memory", "show"]  # importing the modules adds their commands to the group

_MAX_RESULTS = 100
_KINDS = {
    FACTS: ("fact", "facts"),
    HISTORY: ("task", "tasks"),
    PATTERNS: ("pattern", "patterns"),
    PREFERENCES: ("preference", "preferences"),
}


@command(
    "list",
    "toolyard memory list",
    "toolyard memory list --config team.yaml --agent writer --last 20",
    "toolyard memory list --json | jq '.[] | {agent, facts}'",
    who="The agent whose memory is listed.  [default: all agents]",
)
@click.option(
    "--last", metavar="N", type=click.IntRange(0), default=5, show_default=True, help="Newest entries of each kind."
)
def list_memories(where: WorkspaceOptions, *, last: int, wants_json: bool) -> None:
    """List the memories of agents: counts, and the newest entries."""
    with open_memories(where) as memories:
        listed = [
            _memory_fields(memories, who, last) for who in ([where.agent] if where.agent else memories.known_agents())
        ]
    if wants_json:
        echo_json(listed)
    for each in listed if not wants_json else ():
        _print_memory(each)
    faults = [fault for each in listed for fault in each["faults"]]
    is_empty = not any(each[plural] for each in listed for _, plural in _KINDS.values())
    is_idle = not any(each["current_task"] for each in listed)
    if is_empty and is_idle and not faults:
        click.echo("There are no memories here yet.", err=True)
    exit_if_incomplete(faults)


@command(
    "search",
    'toolyard memory search "which index do the reports need"',
    "toolyard memory search --grep 'created_(at|on)'",
    'toolyard memory search "deployment" --config team.yaml --agent writer',
    who="Search what this agent may read.  [default: all memories]",
)
@click.argument("question", required=False)
@click.option("--grep", "pattern", metavar="PATTERN", help="Lines that match a regular expression, by ripgrep.")
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep: ignore case.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(1, _MAX_RESULTS),
    default=10,
    show_default=True,
    help="Maximum number of entries.",
)
def search_memory(
    where: WorkspaceOptions,
    *,
    question: str | None,
    pattern: str | None,
    ignore_case: bool,
    top: int,
    wants_json: bool,
) -> None:
    """Search memories: the entries nearest to a QUESTION, or matching lines with --grep."""
    if (question is None) == (pattern is None):
        raise click.UsageError("Give either a QUESTION or --grep PATTERN.")
    with open_memories(where) as memories:
        agents = memories.readable_by(where.agent) if where.agent else memories.known_agents()
        if pattern is not None:
            _grep(memories, agents, pattern, ignore_case=ignore_case, wants_json=wants_json)
            return
        found = search_agents(memories.root, agents, question or "", top=top)
    if wants_json:
        fields = ("agent", "file", "id", "score", "text")
        echo_json([{name: getattr(hit, name) for name in fields} for hit in found.hits])
    for hit in found.hits if not wants_json else ():
        click.echo(f"{click.style(printable(hit.agent), bold=True)}  {hit.file}  {printable(hit.id)}")
        click.echo(f"    {one_line(hit.text)}")
    exit_if_incomplete(found.faults, "" if found.hits else "No memory matches.")


def _memory_fields(memories: AgentMemories, agent: str, entry_count: int) -> dict[str, Any]:
    faults: list[str] = []
    memory_of_agent = memories.memory_of(agent)
    entries = list(entries_of(memory_of_agent, faults))
    by_file = {file: [entry for entry in entries if entry.file == file] for file in _KINDS}
    doing = None
    try:
        doing = memories.tasks_of(agent).current()
    except ToolyardError as error:
        faults.append(str(error))
    newest = [entry for each in by_file.values() for entry in each[max(len(each) - entry_count, 0) :]]
    return {
        "agent": agent,
        "folder": f"{memories.root.path}/{memory_of_agent.folder}",
        **{_KINDS[file][1]: len(each) for file, each in by_file.items()},
        "current_task": doing.entry if doing is not None else None,
        "entries": [{"file": entry.file, "id": entry.id, "text": entry.text} for entry in newest],
        "faults": faults,
    }


def _print_memory(listed: dict[str, Any]) -> None:
    counts = ", ".join(
        f"{listed[plural]:,} {singular if listed[plural] == 1 else plural}" for singular, plural in _KINDS.values()
    )
    click.echo(f"{click.style(printable(listed['agent']), bold=True)}  {counts}  {printable(listed['folder'])}")
    if listed["current_task"]:
        click.echo(f"    current task: {one_line(str(listed['current_task'].get('description', '')))}")
    for entry in listed["entries"]:
        about = one_line(entry["text"])
        name = "" if entry["file"] == PREFERENCES else f"{printable(entry['id'])}  "
        click.echo(f"    {_KINDS[entry['file']][0]:<10}  {name}{about}")


def _grep(
    memories: AgentMemories, agents: tuple[str, ...], pattern: str, *, ignore_case: bool, wants_json: bool
) -> None:
    from toolyard.files.search import GrepQuery

    query = GrepQuery(pattern, output_mode="content", case_insensitive=ignore_case, line_numbers=True)
    found = grep_agents(memories.root, agents, query)
    results = {agent: result for agent, result in found.results.items() if result.lines}
    if wants_json:
        echo_json([{"agent": agent, "lines": list(result.lines)} for agent, result in results.items()])
    for result in results.values() if not wants_json else ():
        for line in result.lines:
            click.echo(printable(line))
        if result.note:
            click.echo(f"[{printable(result.note)}]", err=True)
    exit_if_incomplete(found.faults, "" if results else "No line of any memory matches.")

"""`toolyard memory show`: show one entry of a memory, or one of its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import click

from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.memory.context import SHORTEST_PREFIX, command, echo_json, exit_if_incomplete, open_memories
from toolyard.core.agent_folder_names import agent_folder
from toolyard.core.errors import ValidationError
from toolyard.core.text import printable
from toolyard.files.locked_document import FILE_BYTES
from toolyard.files.safe_paths import read_file
from toolyard.memory.agent_memories import AgentMemories
from toolyard.memory.facts import Fact
from toolyard.memory.memory import FACTS, HISTORY, PATTERNS, PREFERENCES, Memory
from toolyard.memory.search import MemoryHit, entries_of
from toolyard.memory.task_history import PastTask
from toolyard.memory.tasks import CURRENT
from toolyard.workspace.layout import TASKS

_FILES = {
    "facts": FACTS,
    "tasks": HISTORY,
    "patterns": PATTERNS,
    "preferences": PREFERENCES,
    "task": CURRENT,
}


@command(
    "show",
    "toolyard memory show 3f0c9a61",
    "toolyard memory show learned_patterns.md --agent writer",
    "toolyard memory show facts --config team.yaml --agent writer",
    who="The agent whose memory is meant.  [default: any agent]",
)
@click.argument("what", metavar="NAME")
def show_memory(where: WorkspaceOptions, *, what: str, wants_json: bool) -> None:
    """Show one entry, or one file.

    NAME is an id, or a prefix of one; the title of a pattern; the key of a preference; or a file: facts, tasks,
    patterns, preferences, task, or its full name.
    """
    with open_memories(where) as memories:
        agents = (where.agent,) if where.agent else memories.known_agents()
        file = _FILES.get(what, what)
        if file in _FILES.values():
            _show_file(memories, agents, file, wants_json=wants_json)
        else:
            _show_entry(memories, agents, what, wants_json=wants_json)


def _show_file(memories: AgentMemories, agents: tuple[str, ...], file: str, *, wants_json: bool) -> None:
    found = {who: data for who in agents if (data := _read_memory_file(memories, who, file)) is not None}
    if len(found) > 1:
        several = ", ".join(found)
        hint = f"Choose one: --agent {next(iter(found))}"
        raise ValidationError.of("agent", f"several agents have a {file}: {several}", hint=hint)
    for who, data in found.items():
        # Agents can write arbitrary bytes.
        text = data.decode("utf-8", "backslashreplace")
        if wants_json:
            echo_json({"agent": who, "file": file, "text": text})
        else:
            click.echo("\n".join(map(printable, text.removesuffix("\n").split("\n"))))
    exit_if_incomplete((), "" if found else f"There is no {file} here.")


def _read_memory_file(memories: AgentMemories, agent: str, file: str) -> bytes | None:
    folder = agent_folder(agent, TASKS) if file == CURRENT else memories.memory_of(agent).folder
    return read_file(memories.root, f"{folder}/{file}", FILE_BYTES)


def _show_entry(memories: AgentMemories, agents: tuple[str, ...], what: str, *, wants_json: bool) -> None:
    faults: list[str] = []
    entries = [entry for who in agents for entry in entries_of(memories.memory_of(who), faults)]
    found = [entry for entry in entries if entry.id == what]
    if not found and len(what) >= SHORTEST_PREFIX:
        found = [entry for entry in entries if entry.id.startswith(what)]
    if len(found) > 1:
        several = ", ".join(f"{entry.id} of {entry.agent}" for entry in found[:5])
        raise ValidationError.of(
            "name", f"{what!r} matches several entries: {several}", hint="Give more characters, or pass --agent ID."
        )
    for hit in found:
        whole = _ENTRY_READERS[hit.file](memories.memory_of(hit.agent), hit)
        if wants_json:
            echo_json({"agent": hit.agent, "file": hit.file, "id": hit.id, "entry": whole})
        else:
            click.echo(f"{click.style(printable(hit.agent), bold=True)}  {hit.file}  {printable(hit.id)}")
            _print_entry(whole)
    exit_if_incomplete(faults if not found else (), "" if found else f"There is no memory called {what!r} here.")


def _print_entry(entry: Any) -> None:
    if not isinstance(entry, dict):
        click.echo(printable(str(entry)))
        return
    for key, value in cast("dict[str, Any]", entry).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = text.split("\n")
        click.echo(f"  {printable(key)}: {printable(first)}")
        for line in rest:
            click.echo(f"    {printable(line)}")


def _fact_entry(memory: Memory, hit: MemoryHit) -> Any:
    return next((fact.entry for fact in memory.facts() if Fact(fact.entry).id == hit.id), hit.text)


def _task_entry(memory: Memory, hit: MemoryHit) -> Any:
    return next((task.entry for task in memory.history() if PastTask(task.entry).id == hit.id), hit.text)


def _pattern_entry(_: Memory, hit: MemoryHit) -> Any:
    return {"title": hit.id, "text": hit.text}


def _preference_entry(memory: Memory, hit: MemoryHit) -> Any:
    return {hit.id: memory.preferences().get(hit.id)}


_ENTRY_READERS: dict[str, Callable[[Memory, MemoryHit], Any]] = {
    FACTS: _fact_entry,
    HISTORY: _task_entry,
    PATTERNS: _pattern_entry,
    PREFERENCES: _preference_entry,
}

"""`toolyard memory add`, `forget` and `import`: change what an agent remembers."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict

import click

from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.memory.context import (
    SHORTEST_PREFIX,
    command,
    echo_json,
    exit_if_incomplete,
    one_line,
    open_memories,
)
from toolyard.core.errors import ToolyardError, ValidationError
from toolyard.core.text import printable
from toolyard.memory.agent_memories import AgentMemories
from toolyard_runtime.memory_entries import MOST_TEXT

_SHOWN_REFUSALS = 5
_SHOWN_IDS = 5
_STDIN = "-"


@command(
    "add",
    'toolyard memory add "The reports need an index on created_at" --topic databases',
    'toolyard memory add "Ask before you deploy" --config team.yaml --agent writer',
    "git log -1 --format=%B | toolyard memory add - --topic release",
)
@click.argument("text")
@click.option("--topic", default="", metavar="T", help="A topic of one or two words.")
def add_fact(where: WorkspaceOptions, *, text: str, topic: str, wants_json: bool) -> None:
    """Add a fact to an agent's memory. A TEXT of - is read from standard input."""
    if text == _STDIN:
        # One character more than a fact may have, so that a longer text is refused without reading all of it.
        read = sys.stdin.read(MOST_TEXT + 1)
        text = read.strip() if len(read) <= MOST_TEXT else read
    with open_memories(where, acts_as_agent=True, adds=True) as memories:
        fact = memories.memory_of(memories.agent).remember(text, topic)
        who = memories.agent
    if wants_json:
        echo_json({"agent": who, "id": fact.id, "entry": fact.entry})
    else:
        click.echo(f"{printable(who)} remembers it as {printable(fact.id)}.")


@command(
    "forget",
    "toolyard memory forget 3f0c9a61",
    "toolyard memory forget 3f0c9a61d2b84e57 --config team.yaml --agent writer",
)
@click.argument("identity", metavar="ID")
def forget_fact(where: WorkspaceOptions, *, identity: str, wants_json: bool) -> None:
    """Remove a fact from an agent's memory. ID is its id, or a prefix of it."""
    with open_memories(where, acts_as_agent=True) as memories:
        who = memories.agent
        fact = memories.memory_of(who).forget(_find_fact_id(memories, who, identity))
    if wants_json:
        echo_json({"agent": who, "id": fact.id, "entry": fact.entry})
    else:
        click.echo(f"{printable(who)} has forgotten: {one_line(fact.text)}")


def _find_fact_id(memories: AgentMemories, who: str, identity: str) -> str:
    """Returns the id of a fact of `who`. Raises ValidationError with the owner if it belongs to another agent."""
    if found := _matching_ids(memories, who, identity):
        if len(found) > 1:
            several = ", ".join(found[:_SHOWN_IDS])
            raise ValidationError.of(
                "id", f"{identity!r} is a prefix of several ids: {several}", hint="Give more characters."
            )
        return found[0]
    owners: list[str] = []
    for other in memories.known_agents():
        with contextlib.suppress(ToolyardError):  # an unreadable memory of another agent is not an error here
            owners += [other] if other != who and _matching_ids(memories, other, identity) else []
    if owners:
        hint = f"It belongs to {owners[0]}: --agent {owners[0]}"
        raise ValidationError.of("id", f"{who} has no fact {identity}", hint=hint)
    return identity


def _matching_ids(memories: AgentMemories, agent: str, identity: str) -> list[str]:
    ids = [fact.id for fact in memories.memory_of(agent).facts()]
    if identity in ids:
        return [identity]
    return [each for each in ids if each.startswith(identity)] if len(identity) >= SHORTEST_PREFIX else []


@command(
    "import",
    "toolyard memory import --from mem0 ~/.mem0/qdrant --dry-run",
    "toolyard memory import --from mem0 ./store --user alice --config team.yaml --agent writer",
)
@click.argument("path")
@click.option(
    "--from", "source", type=click.Choice(["mem0"]), required=True, help="The program that wrote the store."
)
@click.option("--collection", default="", metavar="C", help="The collection of the store, if it has several.")
@click.option("--user", default="", metavar="U", help="Only memories of this user (mem0's user_id).")
@click.option("--agent-id", default="", metavar="A", help="Only memories of this agent (mem0's agent_id).")
@click.option("--run-id", default="", metavar="R", help="Only memories of this run (mem0's run_id).")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and write nothing.")
def import_memories(
    where: WorkspaceOptions,
    *,
    path: str,
    source: str,
    collection: str,
    user: str,
    agent_id: str,
    run_id: str,
    dry_run: bool,
    wants_json: bool,
) -> None:
    """Import memories from mem0's local store at PATH: qdrant, chroma or faiss.

    mem0 may be running, and the import can be repeated: new and changed memories are imported, and memories changed
    or forgotten here stay so.
    """
    from toolyard.memory.mem0 import import_mem0, read_store

    with open_memories(where, acts_as_agent=True, adds=True) as memories:
        who = memories.agent
        contents = read_store(path, collection)
        chosen = contents.filter_by_session(user_id=user, agent_id=agent_id, run_id=run_id)
        done = import_mem0(memories.memory_of(who), chosen, dry_run=dry_run)
    others = len(contents.memories) - len(chosen)
    if wants_json:
        about = {"from": source, "kind": contents.kind, "collection": contents.collection, "dry_run": dry_run}
        counts = {"others": others, "unreadable": contents.unreadable}
        echo_json({"agent": who, **about, **asdict(done), **counts})
    else:
        doing = "would be" if dry_run else "was" if done.added == 1 else "were"
        same = "is unchanged" if done.unchanged == 1 else "are unchanged"
        click.echo(
            f"{len(chosen):,} {'memory' if len(chosen) == 1 else 'memories'} of {contents.kind} for {printable(who)}:"
            f" {done.added:,} {doing} added, {done.updated:,} changed, {done.unchanged:,} {same}."
        )
        notes = {
            "changed on both sides: not updated": done.kept,
            "forgotten here earlier: skipped": done.forgotten,
            "of other users, agents or runs: skipped": others,
            "entries that are not memories or cannot be read": contents.unreadable,
        }
        for note, count in notes.items():
            if count:
                click.echo(f"  {count:,} {note}")
    refused = ", ".join(done.refused[:_SHOWN_REFUSALS])
    exit_if_incomplete(
        [f"{len(done.refused):,} are too long to be facts: {refused}"] if done.refused else (),
        "" if chosen else "No memory of the store matches.",
    )

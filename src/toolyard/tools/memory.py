"""memory_search and memory_remember: what an agent remembers between sessions, for clients without code mode.

Two checks precede every access: the configuration's rules, which say whose memory is open to whom, and the policy,
which applies to the files by their paths. The implementation is loaded with the first call.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.config.memory_access import MemoryAccess
from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import STRINGS, Arguments, Tool, output_schema
from toolyard_runtime.memory_entries import FACTS

if TYPE_CHECKING:
    from toolyard.memory.search import MemoryHit, MemorySearchResult

Optional = SkipJsonSchema[None]
Whose = Annotated[str | Optional, Field(description="Another agent's, where that is allowed; your own if absent")]
_MAX_HITS = 50
_MAX_TEXT_CHARS = 2_000


class MemorySearchArguments(Arguments):
    query: Annotated[str, Field(description="A question or keywords", min_length=1, max_length=2_000)]
    agent: Annotated[
        str | Optional, Field(description="Only this agent's memory; else every one that you may read")
    ] = None
    top: Annotated[int, Field(ge=1, le=_MAX_HITS)] = 10


class MemoryRememberArguments(Arguments):
    text: Annotated[str, Field(description="One fact, in a sentence or two", min_length=1)]
    topic: Annotated[str | Optional, Field(description="What it is about, in a word or two")] = None
    agent: Whose = None


def search(arguments: MemorySearchArguments, ctx: CallContext) -> Result:
    """Runs the memory_search tool."""
    from toolyard.memory.agent_memories import AgentMemories
    from toolyard.memory.search import search_agents

    with AgentMemories(ctx.agent_paths) as memories:
        if arguments.agent is not None:
            memories.require_access(arguments.agent, MemoryAccess.READ)
        agents = memories.readable_agents() if arguments.agent is None else (arguments.agent,)
        for agent in agents:
            with ctx.open(os.path.dirname(memories.file_of(agent, FACTS)), Kind.READ):
                pass
        found = search_agents(
            memories.root,
            agents,
            arguments.query,
            top=arguments.top,
            visible=lambda agent, file: ctx.permissions.is_visible(memories.file_of(agent, file)),
        )
    hits = [_hit_fields(hit) for hit in found.hits]
    return Result((Text(_hits_text(found, hits)),), {"hits": hits, "faults": list(found.faults)})


def _hit_fields(hit: MemoryHit) -> dict[str, Any]:
    text = hit.text if len(hit.text) <= _MAX_TEXT_CHARS else f"{hit.text[:_MAX_TEXT_CHARS]}…"
    return {"agent": hit.agent, "file": hit.file, "id": hit.id, "text": text, "score": hit.score}


def _hits_text(found: MemorySearchResult, hits: list[dict[str, Any]]) -> str:
    lines = [f"{hit['agent']} {hit['file']} {hit['id']}\n    {hit['text']}" for hit in hits]
    lines = lines or ["No memory matches."]
    return "\n".join([*lines, *(f"[{fault}]" for fault in found.faults)])


def remember(arguments: MemoryRememberArguments, ctx: CallContext) -> Result:
    """Runs the memory_remember tool."""
    from toolyard.memory.agent_memories import AgentMemories

    with AgentMemories(ctx.agent_paths) as memories:
        agent = arguments.agent or memories.agent
        memories.require_access(agent, MemoryAccess.WRITE)
        ctx.require_thread()  # it may have to wait for other writers
        with ctx.open(memories.file_of(agent, FACTS), Kind.READ, Kind.WRITE):
            pass
        # From here on links are not followed, so it is the file that was checked.
        fact = memories.memory_of(agent).remember(arguments.text, arguments.topic or "")
    text = f"Remembered as {fact.id}" + (f" in the memory of {agent}." if arguments.agent else ".")
    return Result((Text(text),), {"agent": agent, "id": fact.id})


_HIT = output_schema(agent="string", file="string", id="string", text="string", score="number")

MEMORY_SEARCH = Tool(
    name="memory_search",
    description="Find what was remembered in earlier sessions: facts, past tasks, patterns, preferences.",
    arguments=MemorySearchArguments,
    output=output_schema(hits={"type": "array", "items": _HIT}, faults=STRINGS),
    run=search,
    kind="read",
)
MEMORY_REMEMBER = Tool(
    name="memory_remember",
    description="Keep a fact for later sessions. One that is known already is not kept twice.",
    arguments=MemoryRememberArguments,
    output=output_schema(agent="string", id="string"),
    run=remember,
    kind="write",
    read_only=False,
)
MEMORY_TOOLS: tuple[Tool[Any], ...] = (MEMORY_SEARCH, MEMORY_REMEMBER)

"""What an agent's model is sent before it has done anything: its tools and its system prompt, by number of servers.

Counted as a run sends them: the workspace is opened as a run opens it, with the servers' tools in its catalog, and
what is counted are name, description and schema of each tool, and the system prompt. The servers are captured ones;
where more are wanted than there are, the same ones come again under other names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from benchmarks.benchmark import Bench
from benchmarks.codemode.fixture import program
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most, skipped
from tests.support.universe import universe
from toolyard.app.execution_mode import MAX_ESSENTIAL_TOKENS as MOST_TOOL_TOKENS
from toolyard.app.execution_mode import tool_injection_for
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.sync import update_tool_files
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.tokens import count_tokens, has_tokenizer
from toolyard.core.upstream import ServerListing
from toolyard.team.paths import make_folders, with_layout, workspace_of
from toolyard.team.prompts import MAX_TOKENS as MOST_PROMPT_TOKENS
from toolyard.team.prompts import system_prompt

COUNTS = (0, 1, 10, 100, 500)
FILES_FIRST, IN_CONTEXT = "filesystem_first", "context_based"
_AGENT = "agent_a"
_SEED_STEP = 89
"""Servers are taken from the alphabet in steps of this: the first ones of it are much alike."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one agent: how many tools it is offered, and what they and its prompt cost."""

    offered: int
    tools: int
    prompt: int


def measure_tokens(bench: Bench) -> list[Row]:
    if not has_tokenizer():
        return [skipped("context of an agent", "tokens", "no tokenizer; `pip install 'toolyard[tokens]'` brings one")]
    rows: list[Row] = []
    largest = bench.sizes.universe
    counts = [count for count in COUNTS if largest is None or count <= largest]
    for mode in (FILES_FIRST, IN_CONTEXT):
        seen: dict[int, Seen] = {}
        for count in counts:
            bench.say(f"{mode} with {count} servers")
            place = bench.folder(f"{mode}-{count:03}")  # as long for each: the prompt names it
            seen[count] = seen_with(place, mode, [*islice(servers(), count)], bench.settings)
        rows += _constant(seen) if mode == FILES_FIRST else _growing(seen)
    return rows


def _constant(seen: dict[int, Seen]) -> list[Row]:
    """The same for every number of servers, or there is no figure."""
    first, *others = seen.values()
    if any(each != first for each in others):
        raise BenchFault(f"With {FILES_FIRST} an agent does not see the same for any number of servers: {seen}")
    told = f"the same with {', '.join(map(str, seen))} servers; o200k"
    return [
        at_most(f"{FILES_FIRST}: {first.offered} tools", "tokens", first.tools, MOST_TOOL_TOKENS, note=told),
        at_most(f"{FILES_FIRST}: system prompt", "tokens", first.prompt, MOST_PROMPT_TOKENS, note=told),
    ]


def _growing(seen: dict[int, Seen]) -> list[Row]:
    again = f"; {len(universe())} servers were captured, the others are the same under other names"
    return [
        Row(
            f"{IN_CONTEXT}: tools and prompt, {count} server{'s' * (count != 1)}",
            "tokens",
            each.tools + each.prompt,
            note=f"{each.offered:,} tools{again if count > len(universe()) else ''}",
        )
        for count, each in seen.items()
    ]


def servers() -> Iterator[ServerListing]:
    """Captured ones, without end, and the same ones at each time."""
    known = universe()
    number = 0
    while True:
        for at in range(len(known)):
            listing = known[at * _SEED_STEP % len(known)]
            yield replace(listing, server=f"{listing.server}-{number + 1}") if number else listing
        number += 1


def seen_with(folder: str, mode: str, listings: list[ServerListing], settings: Settings) -> Seen:
    """What one agent is sent, with these servers attached and known."""
    agent = {"id": _AGENT, "backend": {"type": "gemini", "permission_mode": "strict"}}
    entries = [{"name": each.server, "command": program()} for each in listings]
    path = os.path.join(folder, "toolyard.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"toolyard": {"execution_mode": mode, "available_mcp_servers": entries}, "agents": [agent]}, file)
    written = load_config(path)
    config = with_layout(written)
    make_folders(config)
    chosen = config.agents[0]
    plain = YardOptions(
        workspace=workspace_of(config, chosen),
        config=config,
        settings=settings,
        agent=_AGENT,
        toolset=Toolset.CODE,
        state_home=os.path.join(folder, "state"),
    )
    with Yard.open(plain) as yard:
        for listing in listings:
            yard.codemode.catalog.record_listing(listing, "known")
        if mode == FILES_FIRST:
            update_tool_files(yard.codemode)
    with Yard.open(replace(plain, injection=tool_injection_for(written, _AGENT))) as yard:
        offered = [
            {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
            for tool in yard.dispatch.tools.values()
        ]
        prompt = system_prompt(config, chosen, yard)
    text = json.dumps(offered, ensure_ascii=False, separators=(",", ":"))
    return Seen(len(offered), count_tokens(text), count_tokens(prompt))

"""What running a team adds to each turn of a model: 8 agents at once, beside the bare requests of the same turns.

Ours is a whole run: in each turn the model reads a file, so that a turn is the request and its streamed answer, the
call through policy and audit log, the conversation kept on disk, the log and the events. The peer is pydantic-ai's
own model with the provider's client, in as many tasks of one loop as there are agents, sending the same tools, the
same prompts and, as results, texts that were there before. Both talk to the same model program.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Bench
from benchmarks.context.fixture import TASK, Heard, ModelProgram, Step, Team
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most, beside
from benchmarks.rounds import interleaved
from toolyard.app.execution_mode import tool_injection_for
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.core.calls import Call
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.providers import ProviderClient, create_provider_client
from toolyard.team.paths import workspace_of
from toolyard.team.prompts import system_prompt

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters

    from toolyard.config.models import Agent

AGENTS = 8
MOST_MS = 20.0
_LINES = 40
_TOOL = "Read"
_ADDED = "the time of a round less that of the bare requests, by all turns of all agents"
_PROCESSOR = "of our process; the peer is pydantic-ai's model and the provider's client alone"
_SEEN = "the model answers at once, so each turn waits for those of the others; one thread does the work of all"


@dataclass(frozen=True, slots=True)
class Talk:
    """What one agent and its model say to each other, known before it is said."""

    agent: Agent
    parameters: ModelRequestParameters
    results: Sequence[str]


def measure_turns(bench: Bench) -> list[Row]:
    turns = bench.sizes.turns
    bench.say(f"{AGENTS} agents, {turns} turns each")
    files = {f"note{number:03}.txt": f"line of note {number}\n" * _LINES for number in range(turns - 1)}
    steps: list[Step] = [{"call": _TOOL, "arguments": {"file_path": name}} for name in files]
    numbers = count()
    processor: dict[str, list[float]] = {"ours": [], "bare": []}
    with ModelProgram(bench.folder("model"), steps) as model:

        def team() -> Team:
            made = Team.of(bench.folder(f"team {next(numbers)}"), AGENTS, bench.settings, model.access)
            made.write(files)
            return made

        talks = asyncio.run(talks_of(team(), [*files]))

        def ours() -> float:
            heard = Heard()
            team().run(heard)
            if {*heard.turns.values()} != {turns}:
                raise BenchFault(f"An agent took {min(heard.turns.values())} turns and not {turns}.")
            processor["ours"].append(heard.processor_a_turn)
            return heard.milliseconds_a_turn

        def bare() -> float:
            taken, worked = asyncio.run(bare_turns(talks, model.access, turns))
            processor["bare"].append(worked)
            return taken

        figures = interleaved({"ours": ours, "bare": bare}, bench.sizes.rounds)
    return rows_of(figures, {name: statistics.median(values[1:]) for name, values in processor.items()})


def rows_of(figures: Mapping[str, float], processor: Mapping[str, float]) -> list[Row]:
    """Of what an agent waits for one turn, and of processor time for one turn, both in milliseconds."""
    ours, bare = figures["ours"], figures["bare"]
    each = (ours - bare) / AGENTS
    return [
        at_most(f"added to each turn of {AGENTS} agents", "ms", each, MOST_MS, note=_ADDED),
        beside("processor time of a turn", "ms", processor["ours"], processor["bare"], note=_PROCESSOR),
        beside(f"a turn as its agent sees it, {AGENTS} busy at once", "ms", ours, bare, note=_SEEN),
    ]


async def talks_of(team: Team, names: Sequence[str]) -> list[Talk]:
    """By the workspaces of a team, opened as a run opens them: its tools, its prompts, what its calls give."""
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    config = team.config
    talks: list[Talk] = []
    for agent in config.agents:
        options = YardOptions(
            workspace=workspace_of(config, agent),
            config=config,
            settings=team.settings,
            agent=agent.id,
            state_home=team.state,
            injection=tool_injection_for(config, agent.id),
        )
        with Yard.open(options) as yard:
            tools = [
                ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=dict(tool.input_schema),
                    strict=False,
                )
                for tool in yard.dispatch.tools.values()
            ]
            instructions = [InstructionPart(content=system_prompt(config, agent, yard))]
            results = [(await yard.dispatch(Call(_TOOL, {"file_path": name}, "bench"))).text for name in names]
        talks.append(
            Talk(agent, ModelRequestParameters(function_tools=tools, instruction_parts=instructions), results)
        )
    return talks


async def bare_turns(talks: Sequence[Talk], access: Mapping[str, str], turns: int) -> tuple[float, float]:
    """Milliseconds of a turn, each agent's in a task of its own, and of processor time for it."""
    spoken = [create_provider_client(resolve_endpoint(talk.agent.backend, access), None) for talk in talks]
    began = time.process_time()
    try:
        spans = await asyncio.gather(*(_talked(one, talk, turns) for one, talk in zip(spoken, talks, strict=True)))
    finally:
        for one in spoken:
            await one.close()
    worked = time.process_time() - began
    return sum(spans) / len(spans) / turns * 1e3, worked / len(spans) / turns * 1e3


async def _talked(spoken: ProviderClient, talk: Talk, turns: int) -> float:
    from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

    began = time.perf_counter()
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(TASK)])]
    for number in range(turns):
        async with spoken.model.request_stream(messages, None, talk.parameters) as stream:
            async for _ in stream:
                pass
            answer = stream.get()
        messages.append(answer)
        parts: list[Any] = [
            ToolReturnPart(tool_name=each.tool_name, content=talk.results[number], tool_call_id=each.tool_call_id)
            for each in answer.tool_calls
        ]
        if not parts and number < turns - 1:
            raise BenchFault(f"The model asked for nothing in turn {number + 1}.")
        messages.append(ModelRequest(parts=parts))
    return time.perf_counter() - began

"""What running a team adds to each turn of a model: 8 agents at once, beside the bare requests of the same turns.

Ours is a whole run: in each turn the model reads a file, so that a turn is the request and its streamed answer, the
call through policy and audit log, the conversation kept on disk, the log and the events. The peer is pydantic-ai's
own model with the provider's client, in as many tasks of one loop as there are agents, sending the same tools, the
same prompts and, as results, texts that were there before. Both talk to the same model program.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from toolyard.app.injecting import injection_of
from toolyard.app.yard import Yard, YardOptions
from toolyard.bench.bench import Bench
from toolyard.bench.context_team import TASK, Heard, ModelProgram, Step, Team
from toolyard.bench.report import Row, at_most, beside
from toolyard.bench.rounds import interleaved
from toolyard.bench.wire import BenchFault
from toolyard.core.calls import Call
from toolyard.models.places import place_of
from toolyard.models.providers import Spoken, speak
from toolyard.team.places import workspace_of
from toolyard.team.prompts import system_prompt

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters

    from toolyard.config.models import Agent

AGENTS = 8
MOST_MS = 20.0
_LINES = 40
_TOOL = "Read"


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
    with ModelProgram(bench.folder("model"), steps) as model:

        def team() -> Team:
            made = Team.of(bench.folder(f"team {next(numbers)}"), AGENTS, bench.settings, model.access)
            made.write(files)
            return made

        first = team()
        talks = asyncio.run(talks_of(first, [*files]))
        processor: dict[str, list[float]] = {"ours": [], "bare": []}

        def ours() -> float:
            heard = Heard()
            here = team()
            here.run(heard)
            processor["ours"].append(heard.processor_a_turn)
            if {*heard.turns.values()} != {turns}:
                raise BenchFault(f"An agent took {min(heard.turns.values())} turns and not {turns}.")
            return heard.milliseconds_a_turn

        def bare() -> float:
            began = time.process_time()
            taken = asyncio.run(bare_turns(talks, model.access, turns))
            processor["bare"].append((time.process_time() - began) / turns / AGENTS * 1e3)
            return taken

        figures = interleaved({"ours": ours, "bare": bare}, bench.sizes.rounds)
    return _rows(figures, {name: min(values) for name, values in processor.items()})


def _rows(figures: Mapping[str, float], processor: Mapping[str, float]) -> list[Row]:
    ours, bare = figures["ours"], figures["bare"]
    return [
        at_most("added", "ms", ours - bare, MOST_MS),
        beside("turn", "ms", ours, bare),
        beside("cpu", "ms", processor["ours"], processor["bare"]),
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
            injected=injection_of(config, agent.id),
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


async def bare_turns(talks: Sequence[Talk], access: Mapping[str, str], turns: int) -> float:
    """Milliseconds of a turn, each agent's in a task of its own."""
    spoken = [speak(place_of(talk.agent.backend, access), None) for talk in talks]
    try:
        spans = await asyncio.gather(*(_talked(one, talk, turns) for one, talk in zip(spoken, talks, strict=True)))
    finally:
        for one in spoken:
            await one.close()
    return sum(spans) / len(spans) / turns * 1e3


async def _talked(spoken: Spoken, talk: Talk, turns: int) -> float:
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

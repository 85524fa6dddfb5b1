"""An agent of the OpenAI Agents SDK with our server attached. Prints its answer."""

import asyncio
import json
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main(url: str, command: list[str]) -> None:
    set_tracing_disabled(True)
    params = {"command": command[0], "args": command[1:], "env": dict(os.environ)}
    model = OpenAIChatCompletionsModel("scripted", AsyncOpenAI(base_url=url, api_key="none"))
    async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:
        run = await Runner.run(Agent("worker", mcp_servers=[server], model=model), "go")
    print(run.final_output)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))

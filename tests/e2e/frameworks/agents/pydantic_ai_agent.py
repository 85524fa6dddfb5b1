"""An agent of pydantic-ai with our server attached. Prints its answer."""

import asyncio
import json
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main(url: str, command: list[str]) -> None:
    server = MCPToolset(StdioTransport(command[0], command[1:], env=dict(os.environ)))
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
    async with (agent := Agent(model, toolsets=[server])):
        print((await agent.run("go")).output)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))

"""An agent of LangGraph, whose ToolNode runs our tools through langchain-mcp-adapters. Prints its answer."""

import asyncio
import json
import os
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


async def main(url: str, command: list[str]) -> None:
    server = {"transport": "stdio", "command": command[0], "args": command[1:], "env": dict(os.environ)}
    tools = await MultiServerMCPClient({"toolyard": server}).get_tools()
    model = ChatOpenAI(model="scripted", base_url=url, api_key="none")
    run = await create_react_agent(model, tools).ainvoke({"messages": [("user", "go")]})
    print(run["messages"][-1].content)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))

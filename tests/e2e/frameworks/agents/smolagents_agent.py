"""A tool-calling agent of smolagents with our server attached. Prints its answer."""

import json
import os
import sys

from mcp import StdioServerParameters
from smolagents import LogLevel, MCPClient, OpenAIServerModel, ToolCallingAgent

url, command = sys.argv[1], json.loads(sys.argv[2])
server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
with MCPClient(server, structured_output=False) as tools:
    model = OpenAIServerModel("scripted", api_base=url, api_key="none")
    print(ToolCallingAgent(tools, model, verbosity_level=LogLevel.OFF).run("go"))

"""The plain HTTP API: the tools of a workspace for callers that are not MCP clients.

`GET /tools` lists them, `POST /execute` runs one and answers with JSON lines, `GET /openapi.json` and `GET /docs`
describe both. `execute_tool_with_retry` is the client.
"""

from __future__ import annotations

from toolyard.transports.http.client import Backoff, ExecutionResult, execute_tool_with_retry

__all__ = ["Backoff", "ExecutionResult", "execute_tool_with_retry"]

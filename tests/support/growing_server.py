"""An MCP server with the tools it is started with. `grow` adds one more, `fresh`, and notifies the client."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, tool: str, names: list[str]) -> dict[str, Any]:
    if method == "initialize":
        able = {"tools": {"listChanged": True}}
        return {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    return {"content": [{"type": "text", "text": f"answer of {tool}"}]} if tool in names else {}


def main(names: list[str]) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        tool = (message.get("params") or {}).get("name", "")
        say(id=message["id"], result=answer(message["method"], tool, names))
        if tool == "grow":
            names.append("fresh")
            say(method="notifications/tools/list_changed")


if __name__ == "__main__":
    main(sys.argv[1:])

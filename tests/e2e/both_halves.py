"""An MCP server of two tools whose results have a text half, a structured half and, for `picture`, an image.

The halves differ, so that what a client shows its model tells which half it took. JSON lines on stdin and stdout.
"""

import json
import sys

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "text", "text": "THE TEXT HALF"}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
STRUCTURED = {"half": "THE STRUCTURED HALF"}
SCHEMA = {"type": "object", "properties": {"half": {"type": "string"}}, "required": ["half"]}
TOOLS = {"words": [TEXT], "picture": [TEXT, IMAGE]}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "both", "version": "1"},
        }
    if method == "tools/list":
        shape = {"inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
        return {"tools": [{"name": name, "description": name, **shape} for name in TOOLS]}
    if method == "tools/call":
        return {"content": TOOLS[params["name"]], "structuredContent": STRUCTURED}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)

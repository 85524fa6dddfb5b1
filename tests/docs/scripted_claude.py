"""A program in the place of `claude`: it reads the settings it is given, calls our tools, and prints as it does."""

from __future__ import annotations

import json
import os
import pathlib
import sys

from toolyard.testing.mcp_http_client import HttpClient

PREFIX = "mcp__toolyard__"
FILE = {"file_path": "slug.py", "content": 'def slug(title):\n    return "-".join(title.lower().split())\n'}


def install(folder: pathlib.Path) -> None:
    """Put it into a folder that stands on the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable}\n{pathlib.Path(__file__).read_text()}")
    program.chmod(0o755)


def tell(kind: str, **fields: object) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


def says(text: str) -> None:
    tell("assistant", message={"model": "claude-sonnet-4-5", "content": [{"type": "text", "text": text}]})


def calls(client: HttpClient, name: str, arguments: dict[str, str]) -> None:
    block = {"type": "tool_use", "id": "1", "name": PREFIX + name, "input": arguments}
    tell("assistant", message={"model": "claude-sonnet-4-5", "content": [block]})
    content = client.call(name, **arguments)["result"]["content"]
    tell("user", message={"content": [{"type": "tool_result", "tool_use_id": "1", "content": content}]})


def main(prompt: str, words: list[str]) -> None:
    settings = json.loads(pathlib.Path(words[words.index("--mcp-config") + 1]).read_text())
    client = HttpClient(settings["mcpServers"]["toolyard"]["url"], os.environ["TOOLYARD_RUN_TOKEN"])
    client.request("tools/list")
    tell("system", subtype="init", model="claude-sonnet-4-5", session_id="s", mcp_servers=[])
    if "These answers to it stand now." in prompt:
        says("VOTE: ada\nIt has a test.")
    else:
        calls(client, "Write", FILE)
        says("`slug.py` has `slug(title)`.")
    usage = {"input_tokens": 2_100, "output_tokens": 90}
    tell("result", subtype="success", is_error=False, result="", usage=usage, total_cost_usd=0.01)


if __name__ == "__main__":
    main(sys.stdin.read(), sys.argv)

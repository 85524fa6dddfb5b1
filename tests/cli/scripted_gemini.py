"""A program in the place of `gemini`: it reads the settings it is given, calls our tools, and prints as it does.

Its prompt is a script: a list of steps in JSON, each a list that says what, and with what. Any other prompt stands
for a short piece of work.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

from toolyard.testing.mcp_http_client import HttpClient

PLAIN = [
    ["say", "I will write it down.\n"],
    ["call", "Write", {"file_path": "hello.txt", "content": "hello\n"}],
    ["call", "Read", {"file_path": "hello.txt"}],
    ["say", "Done: `hello.txt` says hello."],
]
PREFIX = "mcp_toolyard_"


def install(folder: pathlib.Path) -> pathlib.Path:
    """Put it into a folder that can stand on the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "gemini"
    program.write_text(f"#!{sys.executable}\n{pathlib.Path(__file__).read_text()}")
    program.chmod(0o755)
    return folder


def say(kind: str, **fields: object) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


def attached() -> HttpClient:
    settings = json.loads(pathlib.Path(os.environ["GEMINI_CLI_HOME"], ".gemini/settings.json").read_text())
    client = HttpClient(settings["mcpServers"]["toolyard"]["httpUrl"], os.environ["TOOLYARD_RUN_TOKEN"])
    client.request("tools/list")
    return client


def call(client: HttpClient, number: int, name: str, arguments: dict) -> None:
    say("tool_use", tool_name=PREFIX + name, tool_id=str(number), parameters=arguments)
    answer = client.call(name, **arguments)
    result = answer.get("result", {})
    text = "".join(part.get("text", "") for part in result.get("content", []))
    if "error" in answer or result.get("isError"):
        message = text or answer["error"]["message"]
        say("tool_result", tool_id=str(number), status="error", error={"type": "mcp", "message": message})
    else:
        say("tool_result", tool_id=str(number), status="success", output=text)


def main(steps: list[list]) -> None:
    client = None if ["alone"] in steps else attached()
    say("init", session_id="s", model="gemini-2.5-pro")
    for number, (what, *rest) in enumerate(steps):
        match what:
            case "alone":
                pass
            case "call":
                call(client, number, *rest)
            case "open_call":
                say("tool_use", tool_name=PREFIX + rest[0], tool_id=str(number), parameters=rest[1])
            case "say":
                for piece in rest[0].splitlines(keepends=True):
                    say("message", role="assistant", content=piece, delta=True)
            case "error":
                say("error", severity="error", message=rest[0])
            case "fail":
                say("result", status="error", error={"type": "Error", "message": rest[0]}, stats={})
                sys.exit(1)
            case "child":
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
            case "touch":
                pathlib.Path(rest[0]).touch()
            case "pause":
                time.sleep(rest[0])
            case "wait":
                while not os.path.exists(rest[0]):
                    time.sleep(0.01)
            case _:
                raise ValueError(what)
    stats = {"total_tokens": 12_695, "input_tokens": 12_345, "output_tokens": 350, "cached": 10_240}
    say("result", status="success", stats=stats)


if __name__ == "__main__":
    prompt = sys.stdin.read()
    main(json.loads(prompt) if prompt.startswith("[") else PLAIN)

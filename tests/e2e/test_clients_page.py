"""Every command of docs/clients.md that needs a real client, run as it is written."""

from __future__ import annotations

import json
import pathlib
import re
import socket
import subprocess
import tomllib

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "clients.md"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The page's server runs in the background of its shell: wait for it, and end it with the shell.
READY = "until curl --silent --output /dev/null http://127.0.0.1:PORT; do sleep 0.1; done\n"


def blocks(kind: str) -> list[str]:
    return [body for info, body in FENCE.findall(PAGE.read_text()) if info.strip() == kind]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_the_commands_run(npm, yard):
    programs = yard.base / "bin"
    programs.mkdir()
    for name in ("claude", "gemini"):
        (programs / name).symlink_to(npm.program(name))
    (programs / "toolyard").symlink_to(yard.command()[0])
    # What is installed already stands for what npx would fetch.
    inspector = npm.program("mcp-inspector")
    (programs / "npx").write_text(
        f'#!/bin/sh\n[ "$1" = @modelcontextprotocol/inspector ] || exit 9\nshift\nexec {inspector} "$@"\n'
    )
    (programs / "npx").chmod(0o755)
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n"
    for block in blocks("sh e2e"):
        script += block + (READY if "&\n" in block else "")
    script = script.replace("/tmp/project", str(yard.workspace)).replace("8765", "PORT")
    environment = yard.environment(npm, CLAUDE_CONFIG_DIR=str(yard.home), GEMINI_CLI_HOME=str(yard.home))
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    (yard.workspace / "hello.txt").write_text("hello\n")
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("PORT", str(free_port()))],
        env=environment,
        cwd=yard.base,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✔ Connected" in ended.stdout
    assert ended.stdout.count("hello.txt") >= 2
    configured = json.loads((yard.home / ".gemini" / "settings.json").read_text())["mcpServers"]
    assert configured.keys() == {"toolyard", "toolyard-http"}


def test_the_configuration_files_parse():
    (codex,) = blocks("toml e2e")
    assert tomllib.loads(codex)["mcp_servers"]["toolyard"]["command"] == "toolyard"
    (cursor,) = blocks("json e2e")
    assert json.loads(cursor)["mcpServers"]["toolyard"]["command"] == "toolyard"

"""Every command of README, docs/clients.md and docs/mcp-http.md that needs a real client, run as it is written."""

from __future__ import annotations

import json
import socket
import tomllib

from tests.e2e import pages

PAGE = pages.ROOT / "docs" / "clients.md"
HTTP_PAGE = pages.ROOT / "docs" / "mcp-http.md"
# The page's server runs in the background of its shell: wait for it, and end it with the shell.
READY = "until curl --silent --output /dev/null http://127.0.0.1:PORT; do sleep 0.1; done\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_the_commands_run(npm, yard):
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n"
    for block in (*pages.blocks(PAGE, "sh e2e"), *pages.blocks(HTTP_PAGE, "sh e2e")):
        script += block + (READY if "&\n" in block else "")
    (yard.workspace / "hello.txt").write_text("hello\n")
    script = script.replace("8765", "PORT").replace("PORT", str(free_port()))
    printed = pages.run(script, npm, yard, yard.base)
    assert "✔ Connected" in printed
    assert printed.count("hello.txt") >= 2
    configured = json.loads((yard.home / ".gemini" / "settings.json").read_text())["mcpServers"]
    assert configured.keys() == {"toolyard", "toolyard-http"}


def test_the_commands_of_the_readme_run(npm, yard):
    script = "".join(pages.blocks(pages.ROOT / "README.md", "sh e2e"))
    pages.run(f"{script}\nclaude mcp list | grep Connected", npm, yard, pages.ROOT)


def test_the_configuration_files_parse():
    (codex,) = pages.blocks(PAGE, "toml e2e")
    assert tomllib.loads(codex)["mcp_servers"]["toolyard"]["command"] == "toolyard"
    (cursor,) = pages.blocks(PAGE, "json e2e")
    assert json.loads(cursor)["mcpServers"]["toolyard"]["command"] == "toolyard"

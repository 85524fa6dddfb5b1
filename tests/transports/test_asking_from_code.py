"""A question about a tool that code calls reaches the client whose call runs the code, and waits for its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolyard.sandbox.backends.bubblewrap import find_bubblewrap
from toolyard.testing.mcp_client import StdioClient

pytestmark = pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")

SERVER = [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]
WHY = "The limits of mcp__s__echo say to ask before each call."
CODE = """
from servers.s import echo
for text in ("once", "twice"):
    print((await echo(text=text)).text)
"""


class Person(StdioClient):
    """A client with somebody behind it who says yes or no."""

    def __init__(self, command: list[str], *, says: bool) -> None:
        self.asked: list[str] = []
        self._says = says
        super().__init__(command, capabilities={"elicitation": {}})

    def on_request(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] != "elicitation/create":
            return super().on_request(message)
        self.asked.append(message["params"]["message"])
        return {"result": {"action": "accept", "content": {"allow": self._says}}}


@pytest.fixture
def command(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    section = {
        "available_mcp_servers": [{"name": "s", "command": SERVER}],
        "tool_limits": {"s.echo": {"ask": True}},
    }
    (tmp_path / "team.yaml").write_text(json.dumps({"toolyard": section}))

    def made(name: str, *more: str) -> list[str]:
        where = ("--config", "team.yaml", "--workspace", "ws", "--state", "state")
        paths = [str(tmp_path / word) if word in {"team.yaml", "ws", "state"} else word for word in where]
        return [sys.executable, "-m", "toolyard", name, *paths, *more]

    subprocess.run(made("sync"), check=True, capture_output=True)
    return made


def run(client: StdioClient) -> tuple[str, str]:
    """What the code printed, and the last line of what it raised."""
    fields = client.call("execute_python", code=CODE)["result"]["structuredContent"]
    return fields["stdout"], (fields["error"] or "").strip().rpartition("\n")[2]


def test_a_yes_lets_the_code_go_on_and_holds_for_the_run(command) -> None:
    with Person(command("mcp", "--tools", "minimal"), says=True) as person:
        assert run(person) == ("once\ntwice\n", "")
        assert len(person.asked) == 1
        assert WHY in person.asked[0]
        run(person)
        assert len(person.asked) == 2


def test_a_no_is_raised_in_the_code(command) -> None:
    with Person(command("mcp", "--tools", "minimal"), says=False) as person:
        printed, raised = run(person)
        assert (printed, len(person.asked)) == ("", 1)
        assert raised.startswith(f"PermissionError: {WHY} It was not approved.")


def test_a_client_that_cannot_be_asked_has_said_no(command) -> None:
    with StdioClient(command("mcp", "--tools", "minimal")) as client:
        printed, raised = run(client)
        assert printed == ""
        assert raised.startswith(f"PermissionError: {WHY} It was not approved.")

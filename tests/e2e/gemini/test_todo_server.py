"""Gemini CLI with a server on the bridge: it cannot be asked, so its model is told, and hands the file over."""

from __future__ import annotations

import json
import pathlib
import sys

from tests.e2e.scripted import ScriptedModel
from toolyard.testing.mock_model import Call

SERVER = pathlib.Path(__file__).parents[3] / "examples" / "todo_server.py"
HEADLESS = ("-m", "gemini-2.5-flash", "-o", "stream-json", "--skip-trust", "--allowed-mcp-server-names", "todos")
FILE = "def pay():\n    # TODO: round up\n    return 1\n"


def test_the_model_is_told_the_way_and_takes_it(yard, gemini):
    model = ScriptedModel(
        (
            Call("todos_in", {"paths": ["src/pay.py"]}),
            Call("guide_cache_file", {"files": [{"path": "src/pay.py", "content": FILE}]}),
            Call("todos_in", {"paths": ["src/pay.py"]}),
        ),
        "mcp_todos_",
    )
    with model.serving() as url:
        added = gemini(url, "mcp", "add", "--trust", "--scope", "user", "todos", sys.executable, str(SERVER))
        assert added.returncode == 0, added.stderr
        ended = gemini(url, "-p", "go", *HEADLESS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    unsupported, pushed, found = model.words
    assert "does not support MCP sampling" in unsupported
    assert '"cached": 1' in pushed.replace('"cached":1', '"cached": 1')
    assert json.dumps("2: TODO: round up") in found

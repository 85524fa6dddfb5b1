"""Claude Code with a server on the bridge: it cannot be asked, so its model is told, and hands the file over."""

from __future__ import annotations

import json
import pathlib
import sys

from tests.e2e.scripted import ScriptedModel
from toolyard.testing.mock_model import Call

SERVER = pathlib.Path(__file__).parents[3] / "examples" / "todo_server.py"
HEADLESS = ("--permission-mode", "dontAsk", "--tools", "", "--allowedTools", "mcp__todos")
FILE = "def pay():\n    # TODO: round up\n    return 1\n"


def words(shown: object) -> str:
    parts = shown["content"]
    return parts if isinstance(parts, str) else "".join(part["text"] for part in parts)


def test_the_model_is_told_the_way_and_takes_it(yard, claude):
    model = ScriptedModel(
        (
            Call("todos_in", {"paths": ["src/pay.py"]}),
            Call("guide_cache_file", {"path": "src/pay.py", "content": FILE, "size": len(FILE)}),
            Call("todos_in", {"paths": ["src/pay.py"]}),
            Call("todos_in", {"paths": ["../../etc/passwd"]}),
        ),
        "mcp__todos__",
    )
    with model.serving() as url:
        added = claude(url, "mcp", "add", "todos", "--", sys.executable, str(SERVER))
        assert added.returncode == 0, added.stderr
        ended = claude(url, "-p", "go", *HEADLESS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    unsupported, pushed, found, refused = map(words, model.shown)
    assert "does not support MCP sampling" in unsupported
    assert "guide_cache_file" in unsupported
    assert json.loads(pushed)["cached"] == 1
    assert json.loads(found) == {"src/pay.py": ["2: TODO: round up"]}
    assert "../../etc/passwd" in refused


def test_on_a_shared_disk_it_offers_its_root_and_hands_nothing_over(yard, claude):
    (yard.base / "src").mkdir()  # where it is started
    (yard.base / "src/pay.py").write_text(FILE)
    model = ScriptedModel((Call("find_todos", {"folder": "src"}),), "mcp__todos__")
    with model.serving() as url:
        command = (sys.executable, str(SERVER), "--shared-disk", str(yard.base))
        assert claude(url, "mcp", "add", "todos", "--", *command).returncode == 0
        ended = claude(url, "-p", "go", *HEADLESS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (found,) = map(words, model.shown)
    assert json.loads(found) == {f"{yard.base}/src/pay.py": ["2: TODO: round up"]}

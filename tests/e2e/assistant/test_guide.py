"""docs/second-opinion.md and its twin over HTTP, run as written, with Claude Code. All models are scripted."""

from __future__ import annotations

import json
import pathlib
import re
import sys

from tests.e2e import pages
from tests.e2e.assistant.clients import SERVER
from tests.e2e.scripted import LITTLE, ScriptedModel
from tests.e2e.test_clients_page import free_port
from toolyard.testing.mock_model import Call, Turn

PAGE = pages.ROOT / "docs" / "second-opinion.md"
HTTP_PAGE = pages.ROOT / "docs" / "second-opinion-http.md"
ID = re.compile(r"## Continuation ID: (\w{32})")


def asked(request):
    """What Claude does with what the page says to it."""
    if any("precommit" in said for said in request.user_texts):
        return Call("precommit", {"path": "."})
    return Call("codereview", {"files": ["cart.py"], "context": "Prices and shares of a shop."})


def then(request):
    (shown,) = request.results
    if "Verdict: " in shown:
        return Turn(f"It says {shown.splitlines()[0]!r}.", usage=LITTLE)
    return Call("chat", {"prompt": "How would you write split?", "continuation_id": ID.findall(shown)[0]})


def at_last(request):
    return Turn("It says:\n" + "\n".join(request.results), usage=LITTLE)


def in_subshell(page):
    commands = "\n".join(pages.blocks(page, "sh", "sh e2e"))
    return f"(\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{commands}\n)"


def test_the_guide_does_what_it_says(npm, yard):
    script = "\n".join(in_subshell(page) for page in (PAGE, HTTP_PAGE)).replace("/tmp/", f"{yard.base}/")
    for port in ("8123", "8766"):
        assert port in script
        script = script.replace(port, str(free_port()))
    script = f"PATH=$PATH:{pathlib.Path(sys.executable).parent}\n{script}"
    model = ScriptedModel((asked, then, at_last), f"mcp__{SERVER}__")
    with model.serving() as url:
        printed = pages.run(
            *(script, npm, yard, pages.ROOT),
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="not-a-key",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
    assert re.search(
        r"toolyard-assistant: \S+/toolyard assistant --workspace \S+/second-opinion - ✔ Connected", printed
    )
    assert printed.count("1. **high** (bug) cart.py:12: The remainder is lost") == 3  # Claude once, curl twice
    assert printed.count("share, rest = divmod(amount, people)") == 3  # Claude, curl and the thread
    assert "It says 'Verdict: no-go'." in printed
    assert "- secrets: billing.py:1 AWS Access Key" in printed
    assert "There is no key for Gemini API." in printed
    assert "\nno-go partial\n" in printed
    assert 'Removed "toolyard-assistant" for Claude Code' in printed
    assert SERVER not in json.loads((yard.home / ".claude.json").read_text()).get("mcpServers", {})

"""docs/attach-everything.md and the pages that continue it, run with real clients and published servers."""

from __future__ import annotations

import json
import tomllib

from tests.e2e import pages, published

PAGE = pages.ROOT / "docs" / "attach-everything.md"
CONTINUED = [pages.ROOT / "docs" / f"{name}.md" for name in ("tool-access", "custom-tools", "troubleshooting")]
TOKYO = "T01:30:00+09:00"


def test_the_guide_does_what_it_says(npm, yard):
    published.python_server("mcp-server-time")
    commands = [block for page in (PAGE, *CONTINUED) for block in pages.blocks(page, "sh e2e")]
    printed = pages.run("".join(commands), npm, yard, yard.base)
    for said in (
        "25 tools of 3 servers; asked 3",
        "tokens; as files they cost none.",
        "async def convert_time(source_timezone: str, time: str, target_timezone: str) -> ConvertTimeResult:",
        "time.get_current_time  servers/time/get_current_time.py",
        "✔ Connected",
        "as it should be: exit code 126",
        "as expected without a user to ask: exit code 126",
        "mcp__memory__delete_entities",
        "2.0",
        "skills/agent/tokyo_time",
        "servers: 3 with 25 tools",
    ):
        assert said in printed
    assert printed.count(TOKYO) >= 3
    assert TOKYO in (yard.workspace / "report.md").read_text()
    assert "Tokyo" in (yard.workspace / "memory.jsonl").read_text()
    assert "toolyard" in json.loads((yard.home / ".gemini" / "settings.json").read_text())["mcpServers"]


def test_the_entry_for_codex_parses():
    (codex,) = pages.blocks(PAGE, "toml e2e")
    assert tomllib.loads(codex)["mcp_servers"]["toolyard"]["args"][-1] == "code"

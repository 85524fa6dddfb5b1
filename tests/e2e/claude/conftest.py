"""A scripted model that speaks the Anthropic messages format, and Claude Code run against it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.scripted import ScriptedModel
from toolyard.testing.mock_model import Call

PREFIX = "mcp__toolyard__"


@pytest.fixture
def anthropic():
    """A model that plays a script: `anthropic(("Read", {...}), ...)`."""

    def scripted(*steps: tuple[str, dict[str, Any]]) -> ScriptedModel:
        return ScriptedModel(tuple(Call(*step) for step in steps), PREFIX)

    return scripted


@pytest.fixture
def claude(npm, yard):
    """Run Claude Code: `claude(model_url, *arguments)`; its `home` keeps what `claude mcp add` wrote."""

    def run(url: str, *arguments: str, **environment: str):
        variables = yard.environment(
            npm,
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="not-a-key",
            CLAUDE_CONFIG_DIR=str(yard.home / ".claude"),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            MCP_CONNECTION_NONBLOCKING="0",
            **environment,
        )
        return yard.run([npm.program("claude"), *arguments], variables)

    return run

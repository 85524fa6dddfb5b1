"""Clients that are known by their name."""

from __future__ import annotations

import pytest

from toolyard.transports.mcp.client_quirks import wants_structured


@pytest.mark.parametrize("name", ["claude-code", "codex-mcp-client", "qwen-cli-mcp-client-toolyard"])
def test_who_shows_its_model_the_structured_half_gets_the_readable_one_alone(name):
    assert not wants_structured(name)


@pytest.mark.parametrize("name", [None, "", "gemini-cli-mcp-client", "opencode", "my-claude-code"])
def test_everybody_else_gets_both(name):
    assert wants_structured(name)

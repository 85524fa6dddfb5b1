"""A scripted model that speaks the Gemini API's format, and Gemini CLI run against it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.scripted import ScriptedModel
from toolyard.testing.mock_model import Call

PREFIX = "mcp_toolyard_"
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


@pytest.fixture
def gemini_model():
    """A model that plays a script: `gemini_model(("Read", {...}), ...)`."""

    def scripted(*steps: tuple[str, dict[str, Any]]) -> ScriptedModel:
        return ScriptedModel(tuple(Call(*step) for step in steps), PREFIX)

    return scripted


@pytest.fixture
def gemini(npm, yard):
    """Run Gemini CLI: `gemini(model_url, *arguments)`."""
    folder = yard.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))

    def run(url: str, *arguments: str, **environment: str):
        variables = yard.environment(
            npm,
            GEMINI_CLI_HOME=str(yard.home),
            GEMINI_API_KEY="not-a-key",
            GOOGLE_GEMINI_BASE_URL=url,
            GEMINI_CLI_NO_RELAUNCH="true",
            **environment,
        )
        return yard.run([npm.program("gemini"), *arguments], variables)

    return run

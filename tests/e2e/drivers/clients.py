"""What is particular to each CLI, for the suite that is the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

KEY = "a-key-that-is-in-no-file"


@dataclass(frozen=True)
class Client:
    prefix: str
    """What the model sees before the names of our tools."""
    model: str
    key: str
    address: str
    """The variable with the address of the model."""
    path: str = ""
    own_tools: frozenset[str] = frozenset()
    """Tools of the CLI's own that the model sees all the same: docs/drive-isolation.md says so too."""

    def variables(self, url: str) -> dict[str, str]:
        return {self.key: KEY, self.address: url + self.path}


CLIENTS = {
    "gemini": Client("mcp_toolyard_", "gemini-2.5-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    "claude": Client("mcp__toolyard__", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "codex": Client(
        *("mcp__toolyard__", "gpt-5", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
        # No setting turns them off. The first three show what MCP servers offer beside tools, here ours alone;
        # the last one has nobody to ask and says so.
        frozenset({"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input"}),
    ),
    "qwen": Client("mcp__toolyard__", "scripted", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "opencode": Client("toolyard_", "scripted", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
}
CLIS = tuple(CLIENTS)

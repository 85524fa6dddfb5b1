"""The backends that are CLIs, for the suite that all backends share."""

from __future__ import annotations

from tests.e2e.drivers.clients import CLIENTS
from tests.support.backend_suite.scenarios import Backend

KINDS = {"claude_code": "claude", "gemini_cli": "gemini", "codex": "codex", "qwen": "qwen", "opencode": "opencode"}
"""By `backend.type`: the name of the driver."""
REFUSED = {
    "claude_code": "plan mode changes nothing",
    "gemini_cli": 'Tool "mcp_toolyard_Write" not found',
    "codex": "unsupported call",
    "qwen": "that permission was declined",
    "opencode": "unavailable tool",
}
"""What the model is shown that writes in plan mode: most CLIs are told not to offer it."""
BACKENDS = {
    kind: Backend(
        kind,
        CLIENTS[cli].model,
        CLIENTS[cli].prefix,
        CLIENTS[cli].own_tools,
        REFUSED[kind],
    )
    for kind, cli in KINDS.items()
}

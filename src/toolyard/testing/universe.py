"""Real MCP servers as data: what 207 public ones list. For tests and benchmarks, from a checkout of the sources."""

from __future__ import annotations

import functools
import gzip
import json
import os
from typing import Any

from toolyard.core.errors import SystemFault
from toolyard.core.upstream import ServerListing, ToolSchema

_DATA = "tests/data/universe/servers.jsonl.gz"


@functools.cache
def universe() -> tuple[ServerListing, ...]:
    """Every captured server, by name."""
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    path = os.path.join(checkout, _DATA)
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return tuple(listing(json.loads(line)) for line in lines)
    except FileNotFoundError:
        raise SystemFault(
            f"The captured servers are not at {path}.",
            hint="They come with the sources: run from a checkout of them.",
        ) from None


def listing(captured: dict[str, Any]) -> ServerListing:
    """One captured server as the catalog knows it."""
    return ServerListing(
        captured["server"],
        tuple(_tool(tool) for tool in captured["tools"]),
        version=captured.get("version") or "",
        protocol=captured.get("protocolVersion") or "",
        instructions=captured.get("instructions") or "",
    )


def _tool(listed: dict[str, Any]) -> ToolSchema:
    return ToolSchema(
        listed["name"],
        listed.get("description") or "",
        listed.get("inputSchema") or {},
        listed.get("outputSchema"),
        listed.get("annotations") or {},
        listed.get("title") or "",
    )

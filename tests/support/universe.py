"""Real MCP servers as data: what 207 public ones list. For tests and benchmarks, from a checkout of the sources."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

from tests.support.data_files import lines_of
from toolyard.core.upstream import ServerListing, ToolSchema

_DATA = "tests/data/universe/servers.jsonl.gz"


@functools.cache
def universe() -> tuple[ServerListing, ...]:
    """Every captured server, by name. Raises SystemFault where they are not at hand."""
    return tuple(listing(json.loads(line)) for line in lines_of(_DATA, gzip.open))


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

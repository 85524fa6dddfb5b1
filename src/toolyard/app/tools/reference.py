"""The same files under the names and arguments of the reference filesystem server."""

from __future__ import annotations

from typing import Any

from toolyard.app.tool import Tool

REFERENCE_TOOLS: list[Tool[Any]] = []

"""Ranked search over tools: one index file, written by sync and read by every search. Starts no server."""

from toolyard.codemode.search.documents import Hit, ToolDoc
from toolyard.codemode.search.index import ToolIndex
from toolyard.codemode.search.render import import_line, render_hits

__all__ = ["Hit", "ToolDoc", "ToolIndex", "import_line", "render_hits"]

"""The tools of code mode: Python and commands in the sandbox, and what reading and writing files needs."""

from __future__ import annotations

from typing import Any

from toolyard.app.tool import Tool
from toolyard.app.tools.reading import READ
from toolyard.app.tools.running import RUNNING_TOOLS
from toolyard.app.tools.writing import EDIT, WRITE

CODE_TOOLS: list[Tool[Any]] = [*RUNNING_TOOLS, READ, WRITE, EDIT]

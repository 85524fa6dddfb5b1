"""The tools of code mode: finding tools, running Python and commands, and what files need."""

from __future__ import annotations

from typing import Any

from toolyard.app.tool import Tool
from toolyard.app.tools.finding import SEARCH_TOOLS
from toolyard.app.tools.reading import READ
from toolyard.app.tools.running import EXECUTE_PYTHON, RUNNING_TOOLS
from toolyard.app.tools.writing import EDIT, WRITE

CODE_TOOLS: list[Tool[Any]] = [SEARCH_TOOLS, *RUNNING_TOOLS, READ, WRITE, EDIT]
MINIMAL_TOOLS: list[Tool[Any]] = [SEARCH_TOOLS, EXECUTE_PYTHON]

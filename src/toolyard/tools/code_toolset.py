"""The tools of code mode: finding tools, running Python and commands, and reading and editing files."""

from __future__ import annotations

from typing import Any

from toolyard.dispatch.tool import Tool
from toolyard.tools.execution_tools import EXECUTE_PYTHON, EXECUTION_TOOLS
from toolyard.tools.read import READ
from toolyard.tools.search_tools import SEARCH_TOOLS
from toolyard.tools.write import EDIT, WRITE

CODE_TOOLS: list[Tool[Any]] = [SEARCH_TOOLS, *EXECUTION_TOOLS, READ, WRITE, EDIT]
MINIMAL_TOOLS: list[Tool[Any]] = [SEARCH_TOOLS, EXECUTE_PYTHON]

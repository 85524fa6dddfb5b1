"""The file tools and the shell under Claude Code's names."""

from __future__ import annotations

from typing import Any

from toolyard.dispatch.tool import Tool
from toolyard.tools.execution_tools import BASH, BASH_OUTPUT, KILL_SHELL
from toolyard.tools.notebook_edit import NOTEBOOK_EDIT
from toolyard.tools.read import READ
from toolyard.tools.search import GLOB, GREP, LS
from toolyard.tools.write import EDIT, MULTI_EDIT, WRITE

CLAUDE_TOOLS: list[Tool[Any]] = [
    *(READ, WRITE, EDIT, MULTI_EDIT, NOTEBOOK_EDIT),
    *(BASH, BASH_OUTPUT, KILL_SHELL, GREP, GLOB, LS),
]

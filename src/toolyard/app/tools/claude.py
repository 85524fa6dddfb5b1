"""The file tools and the shell under Claude Code's names."""

from __future__ import annotations

from typing import Any

from toolyard.app.tool import Tool
from toolyard.app.tools.notebook import NOTEBOOK_EDIT
from toolyard.app.tools.reading import READ
from toolyard.app.tools.running import BASH, BASH_OUTPUT, KILL_SHELL
from toolyard.app.tools.searching import GLOB, GREP, LS
from toolyard.app.tools.writing import EDIT, MULTI_EDIT, WRITE

CLAUDE_TOOLS: list[Tool[Any]] = [
    *(READ, WRITE, EDIT, MULTI_EDIT, NOTEBOOK_EDIT),
    *(BASH, BASH_OUTPUT, KILL_SHELL, GREP, GLOB, LS),
]

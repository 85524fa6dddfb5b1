"""Custom tools: typed Python functions that run in the host process, behind the broker."""

from toolyard.codemode.custom.context import ToolContext, WorkspaceFiles
from toolyard.codemode.custom.registry import CustomTool, CustomTools, ToolProblem, load_custom_tools

__all__ = ["CustomTool", "CustomTools", "ToolContext", "ToolProblem", "WorkspaceFiles", "load_custom_tools"]

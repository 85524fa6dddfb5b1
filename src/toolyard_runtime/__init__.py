"""What runs inside a Toolyard sandbox. Standard library only, and quick to start.

`warden` is the program a sandbox starts; it forks a worker for each run. Nothing here imports `toolyard`: the two
packages share the wire format (`wire`) and live on different sides of the wall.

Code in the sandbox finds its way to tools here: `call_mcp_tool`, `call_custom_tool`, `semantic_search`,
`save_skill`, `promote_skill`, `list_skills`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard_runtime.calls import (
        call_custom_tool,
        call_custom_tool_sync,
        call_mcp_tool,
        call_mcp_tool_sync,
        list_skills,
        promote_skill,
        save_skill,
        semantic_search,
    )

__all__ = [  # noqa: RUF022 - as one would look for them
    "call_mcp_tool",
    "call_mcp_tool_sync",
    "call_custom_tool",
    "call_custom_tool_sync",
    "semantic_search",
    "save_skill",
    "promote_skill",
    "list_skills",
]


def __getattr__(name: str) -> object:
    """Imported when first asked for: a sandbox starts without."""
    if name in __all__:
        from toolyard_runtime import calls

        return getattr(calls, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

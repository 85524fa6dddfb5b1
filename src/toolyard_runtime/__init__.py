"""The code that runs inside a Toolyard sandbox. Standard library only, and quick to start.

`supervisor` is the program that a sandbox starts; it forks a worker for each run. Nothing here imports `toolyard`:
the two packages share only the wire format (`protocol`) and run on different sides of the sandbox's boundary.

Code in the sandbox reaches tools through `call_mcp_tool`, `call_custom_tool`, `semantic_search`, `save_skill`,
`promote_skill` and `list_skills`.
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

__all__ = [  # noqa: RUF022 - grouped by purpose
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
    """Imports the calls on first use: a sandbox starts without them."""
    if name in __all__:
        from toolyard_runtime import calls

        return getattr(calls, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

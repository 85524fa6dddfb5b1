"""Public entry point: starts a run of a CLI by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.core.calls import ApprovalCallback
    from toolyard.core.permission_modes import PermissionMode
    from toolyard.drivers.approval_callback import SyncApprovalCallback
    from toolyard.drivers.mcp_host import Host
    from toolyard.drivers.run import CliRun

    Path = str | os.PathLike[str]


class DriveArguments(TypedDict, total=False):
    """Keyword arguments of `drive`; `DriveOptions` explains them."""

    model: str | None
    timeout: float
    mode: PermissionMode | str | None
    tools: str | Iterable[str] | None
    instructions: str | None
    config: Config | Path | None
    agent: str | None
    state: Path | None
    ask: ApprovalCallback | SyncApprovalCallback | None
    program: Path | None
    variables: Mapping[str, str] | None


def drive(
    cli: str, prompt: str, *, workspace: Path, host: Host | None = None, **options: Unpack[DriveArguments]
) -> CliRun:
    """Runs an agent CLI with a prompt, our tools for `workspace` and no other tools.

    Args:
        cli: `claude`, `codex`, `gemini`, `opencode` or `qwen`.
        prompt: What the agent has to do.
        workspace: The folder that the agent works in.
        host: Serves the tools of any number of runs. Without one the run creates its own.
        **options: `model`, `timeout` in seconds (default 1,800), `mode` (a permission mode), `tools` (a set of
            tools), `instructions`, `config`, `agent`, `state`, `ask` (a function that approves actions), `program`
            (the CLI's path) and `variables` (the CLI's environment).

    Returns:
        A run: `async for message in drive(...)` starts it and yields its messages; leaving the loop ends it.

    Raises:
        ValidationError: The CLI is unknown or an option is invalid. Errors of the run itself are messages.
        ConfigError: The configuration cannot be read.

    Example:
        ```python
        import asyncio

        from toolyard import Finished, TextDelta, drive


        async def main():
            async for message in drive("claude", "Fix the failing test", workspace="project"):
                if isinstance(message, TextDelta):
                    print(message.text, end="")
                elif isinstance(message, Finished):
                    print(message.status, message.changed)


        asyncio.run(main())
        ```

    """
    from toolyard.drivers.options import check_host, parse_options, parse_prompt
    from toolyard.drivers.registry import driver_of  # callers that only read messages do not need these imports
    from toolyard.drivers.run import CliRun

    return CliRun(driver_of(cli), parse_prompt(prompt), parse_options(workspace, options), check_host(host))

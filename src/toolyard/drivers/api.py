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

    `async for message in drive(...)` runs it; leaving the loop ends it. Any number of runs can share a `host`;
    without one the run creates its own. Raises ValidationError for an unknown CLI or an invalid option, and
    ConfigError for an unreadable configuration. Any other error is a message of the run.
    """
    from toolyard.drivers.options import check_host, parse_options, parse_prompt
    from toolyard.drivers.registry import driver_of  # callers that only read messages do not need these imports
    from toolyard.drivers.run import CliRun

    return CliRun(driver_of(cli), parse_prompt(prompt), parse_options(workspace, options), check_host(host))

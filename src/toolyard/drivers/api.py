"""The way in: a run of a CLI, by the CLI's name."""

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
    """What a run may be told beside the CLI, the prompt and the workspace. `DriveOptions` says what each means."""

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
    """Hand a prompt to an agent CLI that has our tools for `workspace`, and nothing else.

    `async for message in drive(...)` runs it; leaving the loop ends it. A `host` is shared by as many runs as you
    like; without one the run has its own. Raises ValidationError where no CLI is called so or an option cannot be
    right, and ConfigError for a configuration that cannot be read; whatever else goes wrong is a message of the run.
    """
    from toolyard.drivers.options import check_host, parse_options, parse_prompt
    from toolyard.drivers.registry import driver_of  # who imports us to read messages does not wait for the rest
    from toolyard.drivers.run import CliRun

    return CliRun(driver_of(cli), parse_prompt(prompt), parse_options(workspace, options), check_host(host))

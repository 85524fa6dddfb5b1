"""The way in: a run of a CLI, by the CLI's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from toolyard.app.toolsets import Toolsets
    from toolyard.config.models import Config
    from toolyard.core.calls import Asker
    from toolyard.core.modes import PermissionMode
    from toolyard.drivers.host import Host
    from toolyard.drivers.running import Run


class Options(TypedDict, total=False):
    """What a run may be told beside the CLI, the prompt and the workspace. `DriveOptions` says what each means."""

    model: str
    timeout: float
    mode: PermissionMode | None
    tools: Toolsets
    instructions: str
    config: Config
    agent: str | None
    state: str | None
    ask: Asker | None
    program: str
    variables: Mapping[str, str]


def drive(cli: str, prompt: str, *, workspace: str, host: Host | None = None, **options: Unpack[Options]) -> Run:
    """Hand a prompt to an agent CLI that has our tools for `workspace`, and nothing else.

    `async for message in drive(...)` runs it; leaving the loop ends it. A `host` is shared by as many runs as you
    like; without one the run has its own. Raises ValidationError where there is no driver of that name.
    """
    from toolyard.drivers.registry import driver_of  # who imports us to read messages does not wait for the rest
    from toolyard.drivers.running import DriveOptions, Run

    return Run(driver_of(cli), prompt, DriveOptions(workspace=workspace, **options), host)

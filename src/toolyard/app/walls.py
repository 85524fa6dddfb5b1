"""Whether the configured sandbox can be had, found out before a server, a run or a CLI starts.

Walls are needed where commands or code can be run at all. A start without the walls that the configuration asks for
is refused: every call that needs them would fail later, one by one.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from toolyard.app.sandboxes import chosen
from toolyard.core.errors import SecurityError
from toolyard.policy.build import runs_on_host

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from toolyard.app.tool import Tool
    from toolyard.config.models import CodeExecution
    from toolyard.config.settings import Settings
    from toolyard.core.modes import PermissionMode
    from toolyard.sandbox.choose import Choice

_NAMESPACES: Final = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--fork")
_SECONDS: Final = 5.0


def runs_code(tools: Iterable[Tool[Any]]) -> bool:
    """Whether one of the tools runs commands or code."""
    return any(tool.longest is not None for tool in tools)


def proven(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> Choice:
    """The sandbox for commands in this mode, seen to start. Raises SecurityError where it does not."""
    from toolyard.sandbox import probe
    from toolyard.sandbox.spec import Tier

    choice = chosen(execution, settings, mode)
    if choice.tier is not Tier.DOCKER:
        return choice  # the probe was part of the choice
    docker = execution.docker
    means = probe.Means.found(settings.container_client, image=docker.image, network=docker.network)
    report = probe.stands(Tier.DOCKER, means)
    if not report.stands:
        raise SecurityError(
            f"The configuration asks for the docker sandbox, which does not start: {report.reason.rstrip('.')}.",
            hint=f"{report.hint} Or set `code_execution: {{mode: bubblewrap}}`.",
            retryable=report.is_passing,
        )
    return choice


def check_walls(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """Raises SecurityError where commands and code could not be run as configured. Starts a sandbox to see."""
    if not execution.enabled or runs_on_host(execution, mode):
        return
    try:
        proven(execution, settings, mode)
    except SecurityError as error:
        raise SecurityError(
            error.message,
            hint=f"{error.hint} To go on without commands and code: `code_execution: {{enabled: false}}`.",
            retryable=error.retryable,
        ) from error


def check_walls_quickly(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """As `check_walls`, in a few milliseconds where all is well: for a server whose client waits for an answer.

    It only sees that namespaces can be made; the sandbox is started when the client has asked for the tools.
    """
    if execution.mode != "bubblewrap" or not _can_make_namespaces():
        check_walls(execution, settings, mode)


def _can_make_namespaces() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    try:
        tried = subprocess.run((unshare, *_NAMESPACES, "true"), capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0

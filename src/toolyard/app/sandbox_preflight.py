"""Whether the configured sandbox can be had, found out before a server, a run or a CLI starts.

Walls are needed where commands or code can be run at all. A start without the walls that the configuration asks for
is refused: every call that needs them would fail later, one by one.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from toolyard.app.toolsets import is_served
from toolyard.core.errors import SecurityError
from toolyard.policy.builder import runs_on_host
from toolyard.sandbox.manager import select_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from toolyard.config.models import Agent, CodeExecution
    from toolyard.config.settings import Settings
    from toolyard.core.permission_modes import PermissionMode
    from toolyard.dispatch.tool import Tool
    from toolyard.sandbox.selection import SandboxChoice

WITHOUT_COMMANDS_HINT: Final = (
    "To go on without commands and code, set `code_execution: {enabled: false}` with `execution_mode: context_based`."
)
_UNSHARE_OPTIONS: Final = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--fork")
_UNSHARE_SECONDS: Final = 5.0


def runs_code(tools: Iterable[Tool[Any]], agent: Agent | None = None) -> bool:
    """Whether one of the tools that the agent's lists leave it runs commands or code."""
    running = [tool.name for tool in tools if tool.max_seconds is not None]
    if agent is None:
        return bool(running)
    backend = agent.backend
    return any(is_served(name, backend.allowed_tools, backend.exclude_tools) for name in running)


def tested_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> SandboxChoice:
    """The sandbox for commands in this mode, seen to start. Raises SecurityError where it does not."""
    from toolyard.sandbox import probe
    from toolyard.sandbox.spec import Tier

    choice = select_sandbox(execution, settings, mode)
    if choice.tier is not Tier.DOCKER:
        return choice  # the probe was part of the choice
    docker = execution.docker
    means = probe.SandboxPrograms.find_programs(settings.container_client, image=docker.image, network=docker.network)
    report = probe.probe_tier(Tier.DOCKER, means)
    if not report.is_available:
        raise SecurityError(
            f"The configuration asks for the docker sandbox, which does not start: {report.reason.rstrip('.')}.",
            hint=f"{report.hint} Or set `code_execution: {{mode: bubblewrap}}`.",
            retryable=report.is_transient,
        )
    return choice


def check_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """Raises SecurityError where commands and code could not be run as configured. Starts a sandbox to see."""
    if not execution.enabled or runs_on_host(execution, mode):
        return
    try:
        tested_sandbox(execution, settings, mode)
    except SecurityError as error:
        raise SecurityError(
            error.message,
            hint=sandbox_hint(error),
            retryable=error.retryable,
        ) from error


def sandbox_hint(error: SecurityError) -> str:
    """How to get the sandbox that the error is about, and how to start without it."""
    return f"{error.hint.removesuffix(' Nothing ran.')} {WITHOUT_COMMANDS_HINT}"


def check_sandbox_quickly(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """As `check_sandbox`, in a few milliseconds where all is well: for a server whose client waits for an answer.

    It only sees that namespaces can be made; the sandbox is started when the client has asked for the tools. Where
    nothing but bubblewrap may be used, that is started.
    """
    needs_bubblewrap = execution.minimum == "bubblewrap"
    if execution.mode != "bubblewrap" or needs_bubblewrap or not _can_make_namespaces():
        check_sandbox(execution, settings, mode)


def _can_make_namespaces() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    try:
        tried = subprocess.run(
            (unshare, *_UNSHARE_OPTIONS, "true"), capture_output=True, timeout=_UNSHARE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0

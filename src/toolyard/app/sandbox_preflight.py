"""Checks that the configured sandbox works before a server, a run or a CLI starts.

A sandbox is needed only if commands or code can be run. A start without the configured sandbox is refused, because
every call that needs it would fail later.
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
    "To continue without commands and code, set `code_execution: {enabled: false}` with"
    " `execution_mode: context_based`."
)
_UNSHARE_OPTIONS: Final = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--fork")
_UNSHARE_SECONDS: Final = 5.0


def runs_code(tools: Iterable[Tool[Any]], agent: Agent | None = None) -> bool:
    """Whether one of the tools that the agent may use runs commands or code."""
    running = [tool.name for tool in tools if tool.max_seconds is not None]
    if agent is None:
        return bool(running)
    backend = agent.backend
    return any(is_served(name, backend.allowed_tools, backend.exclude_tools) for name in running)


def tested_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> SandboxChoice:
    """Returns the sandbox for commands in this mode after a test start. Raises SecurityError if it does not start."""
    from toolyard.sandbox import probe
    from toolyard.sandbox.spec import Tier

    choice = select_sandbox(execution, settings, mode)
    if choice.tier is not Tier.DOCKER:
        return choice  # the selection has already probed it
    docker = execution.docker
    means = probe.SandboxPrograms.find_programs(settings.container_client, image=docker.image, network=docker.network)
    report = probe.probe_tier(Tier.DOCKER, means)
    if not report.is_available:
        reason = report.reason if report.reason.endswith((".", "?", "!")) else f"{report.reason}."
        raise SecurityError(
            f"The configuration asks for the docker sandbox, which does not start: {reason}",
            hint=f"{report.hint} Or set `code_execution: {{mode: bubblewrap}}`.",
            retryable=report.is_transient,
        )
    return choice


def check_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """Starts a sandbox once. Raises SecurityError if commands and code cannot run as configured."""
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
    """Returns how to get the sandbox that the error is about, and how to start without it."""
    return f"{error.hint.removesuffix(' Nothing ran.')} {WITHOUT_COMMANDS_HINT}"


def check_sandbox_quickly(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> None:
    """Like `check_sandbox`, but takes milliseconds in the normal case: for a server whose client is waiting.

    It checks only that namespaces can be created; the sandbox starts when the client has listed the tools. If
    bubblewrap is required, it is started.
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

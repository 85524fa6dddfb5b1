"""Selects the sandbox for commands and code. Never runs unsandboxed by accident: it refuses instead.

`bubblewrap`, the default, means the best tier of this machine: if bubblewrap does not run, the next tier is used and
every result says so, down to the configured `minimum`. `docker` runs in a container or not at all. `none` is used
only if the configuration names it.
"""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import SecurityError
from toolyard.core.fd_exhaustion import mentions_fd_exhaustion, out_of_descriptors_fault
from toolyard.sandbox import probe
from toolyard.sandbox.probe import SandboxPrograms
from toolyard.sandbox.process.sandbox import ProcessSandbox
from toolyard.sandbox.spec import Tier

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution

_FALLBACK_ORDER = (Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.LANDLOCK)
_MIN_DESCRIPTORS = 96
"""Processes inside have the same limit. With fewer descriptors some fail without saying why."""
_DOCTOR_HINT = "Run `toolyard doctor` to see which sandbox features are missing here and how to get them."
_WEAKER_HINT = "`code_execution: {minimum: landlock}` accepts the weak Landlock sandbox."
_UNSANDBOXED_NOTE = (
    "Not sandboxed: this ran with all rights of the user, because the configuration says "
    "`code_execution: {mode: none}`."
)


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """The selected tier and how to start it."""

    tier: Tier
    make: Callable[[], ProcessSandbox]
    note: str = ""
    """A note for every result: that the isolation is weaker than it could be, or missing."""
    is_provisional: bool = False
    """Whether a stronger tier failed for a transient reason, so that another choice may be possible soon."""


def choose_sandbox(execution: CodeExecution, programs: SandboxPrograms | None = None) -> SandboxChoice:
    """Selects the sandbox that the configuration asks for. Raises SecurityError if it is not available."""
    if execution.mode == "none":
        return SandboxChoice(
            Tier.NONE, functools.partial((programs or SandboxPrograms()).make_sandbox, Tier.NONE), _UNSANDBOXED_NOTE
        )
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _MIN_DESCRIPTORS:
        raise _descriptor_error()
    programs = programs or SandboxPrograms.find_programs(
        image=execution.docker.image, network=execution.docker.network
    )
    if execution.mode == "docker":
        return _docker_choice(programs)
    failed: list[probe.TierReport] = []
    for tier in _FALLBACK_ORDER[: _FALLBACK_ORDER.index(Tier(execution.minimum)) + 1]:
        report = probe.probe_tier(tier, programs)
        if report.is_available:
            passing = any(each.is_transient for each in failed)
            return SandboxChoice(
                tier,
                functools.partial(programs.make_sandbox, tier),
                _fallback_note(tier, failed),
                is_provisional=passing,
            )
        failed.append(report)
    raise _unavailable_error(failed, Tier(execution.minimum))


def _docker_choice(programs: SandboxPrograms) -> SandboxChoice:
    """Selects the docker tier without probing, because starting a container takes long; there is no fallback."""
    if programs.engine is None:
        raise SecurityError(
            "The configuration asks for the docker sandbox, but neither docker nor podman was found.",
            hint="Install one of them, or set `code_execution: {mode: bubblewrap}`. Nothing ran.",
        )
    return SandboxChoice(Tier.DOCKER, functools.partial(programs.make_sandbox, Tier.DOCKER))


def _fallback_note(tier: Tier, failed: list[probe.TierReport]) -> str:
    if not failed:
        return ""
    why = f"bubblewrap does not run here ({failed[0].reason.rstrip('.')})"
    if tier.is_weak:
        return (
            f"Weak sandbox ({tier.value}): {why}. Files and the network are isolated; file names and the use "
            f"of the machine are not. {_DOCTOR_HINT}"
        )
    return f"Sandbox: {tier.value}, because {why}."


def _descriptor_error() -> SecurityError:
    fault = out_of_descriptors_fault()
    return SecurityError(
        f"{fault.message} No sandbox could be started, so nothing was run.",
        hint=f"Try again in a moment. {fault.hint}",
        retryable=True,
    )


def _unavailable_error(failed: list[probe.TierReport], minimum: Tier) -> SecurityError:
    if any(mentions_fd_exhaustion(report.reason) for report in failed):
        return _descriptor_error()
    why = "; ".join(f"{report.tier.value}: {report.reason.rstrip('.')}" for report in failed)
    passing = any(report.is_transient for report in failed)
    ways = ["Try again in a moment."] if passing else []
    ways += [failed[0].hint, "Or use `code_execution: {mode: docker}`."]
    ways += [_DOCTOR_HINT] if minimum is Tier.LANDLOCK else [_WEAKER_HINT, _DOCTOR_HINT]
    return SecurityError(
        f"No sandbox as strong as `code_execution.minimum` ({minimum.value}) can be built on this machine, "
        f"so nothing was run ({why}).",
        hint=" ".join(ways),
        retryable=passing,
    )

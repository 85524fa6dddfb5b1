"""Which sandbox commands and code run in. Never none by accident: what cannot be walled in is refused.

`bubblewrap`, the default, stands for the best this machine offers: where bubblewrap does not run, the next tier takes
over and every result says so, down to the configured `minimum`. `docker` is taken at its word: it runs there or not
at all. `none` is chosen by nobody but the one who wrote it.
"""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import SecurityError
from toolyard.core.fd_exhaustion import descriptor_fault, names_descriptors
from toolyard.sandbox import probe
from toolyard.sandbox.probe import Means
from toolyard.sandbox.process.sandbox import BoxSandbox
from toolyard.sandbox.spec import Tier

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution

_DEGRADING = (Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.LANDLOCK)
_LEAST_DESCRIPTORS = 96
"""Processes inside have the same limit. With fewer some fail, and do not say why."""
_DOCTOR = "Run `toolyard doctor` for the walls of this machine and how to get the missing ones."
_WEAKER = "`code_execution: {minimum: landlock}` accepts the weak Landlock sandbox."
_UNSANDBOXED = (
    "Not sandboxed: this ran with all rights of the user, because the configuration says "
    "`code_execution: {mode: none}`."
)


@dataclass(frozen=True, slots=True)
class Choice:
    tier: Tier
    make: Callable[[], BoxSandbox]
    note: str = ""
    """What every result has to say about it: that the walls are weaker than they could be, or missing."""
    is_provisional: bool = False
    """Whether a stronger kind failed for a passing reason, so that the choice may be another in a moment."""


def choose(execution: CodeExecution, means: Means | None = None) -> Choice:
    """The sandbox that the configuration asks for. Raises SecurityError where it cannot be had."""
    if execution.mode == "none":
        return Choice(Tier.NONE, functools.partial((means or Means()).make, Tier.NONE), _UNSANDBOXED)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _LEAST_DESCRIPTORS:
        raise _too_few_descriptors()
    means = means or Means.found(image=execution.docker.image, network=execution.docker.network)
    if execution.mode == "docker":
        return _container(means)
    failed: list[probe.TierReport] = []
    for tier in _DEGRADING[: _DEGRADING.index(Tier(execution.minimum)) + 1]:
        report = probe.stands(tier, means)
        if report.stands:
            passing = any(each.is_passing for each in failed)
            return Choice(tier, functools.partial(means.make, tier), _note(tier, failed), is_provisional=passing)
        failed.append(report)
    raise _refusal(failed, Tier(execution.minimum))


def _container(means: Means) -> Choice:
    """Whether a container can be started is found out by starting it, which takes long; nothing takes its place."""
    if means.engine is None:
        raise SecurityError(
            "The configuration asks for the docker sandbox, and neither docker nor podman was found.",
            hint="Install one of them, or set `code_execution: {mode: bubblewrap}`. Nothing ran.",
        )
    return Choice(Tier.DOCKER, functools.partial(means.make, Tier.DOCKER))


def _note(tier: Tier, failed: list[probe.TierReport]) -> str:
    if not failed:
        return ""
    why = f"bubblewrap does not run here ({failed[0].reason.rstrip('.')})"
    if tier.is_weak:
        return (
            f"Weak sandbox ({tier.value}): {why}. Files and the network are walled off; file names and the use "
            f"of the machine are not. {_DOCTOR}"
        )
    return f"Sandbox: {tier.value}, because {why}."


def _too_few_descriptors() -> SecurityError:
    fault = descriptor_fault()
    return SecurityError(
        f"{fault.message} No sandbox could be started, so nothing was run.",
        hint=f"Try again in a moment. {fault.hint}",
        retryable=True,
    )


def _refusal(failed: list[probe.TierReport], minimum: Tier) -> SecurityError:
    if any(names_descriptors(report.reason) for report in failed):
        return _too_few_descriptors()
    why = "; ".join(f"{report.tier.value}: {report.reason.rstrip('.')}" for report in failed)
    passing = any(report.is_passing for report in failed)
    ways = ["Try again in a moment."] if passing else []
    ways += [failed[0].hint, "Or use `code_execution: {mode: docker}`."]
    ways += [_DOCTOR] if minimum is Tier.LANDLOCK else [_WEAKER, _DOCTOR]
    return SecurityError(
        f"No sandbox as strong as `code_execution.minimum` ({minimum.value}) can be built on this machine, "
        f"so nothing was run ({why}).",
        hint=" ".join(ways),
        retryable=passing,
    )

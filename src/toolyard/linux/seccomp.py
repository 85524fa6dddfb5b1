"""The seccomp filter of a sandbox: the system calls that its processes may not make.

`build_program()` builds a classic BPF program, an array of `struct sock_filter`, and does nothing else. To install
it, set `no_new_privs` and pass the bytes to seccomp(2); it then applies to that process and all that it starts.

It is a deny filter: it reduces the reachable kernel behind the restrictions that really confine (namespaces,
Landlock), and ordinary programs do not notice it. A refused call fails with EPERM. Two calls fail with ENOSYS
instead, because their arguments lie in memory that a filter cannot read, and every program falls back to the older
call: clone3 to clone, openat2 to openat.

Arguments are compared by their lower 32 bits. Each tested argument is an `int` or shorter to the kernel, which
ignores the upper half; a filter that compared the upper half could be bypassed by setting a bit there. Sizes are the
exception: both halves count.
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
    """Which sockets a process may create.

    `ORDINARY`: TCP, UDP, ping, unix sockets, and netlink for querying interfaces. For a sandbox with its own network
    namespace. `NONE`: only connected stream pairs, and nothing else that the machine shares by name (System V and
    POSIX objects). For a sandbox without a network namespace: there a unix socket reaches services of the machine,
    and Landlock does not restrict that.
    """

    ORDINARY = "ordinary"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class _ArgumentTest:
    """One test of an argument: `any_bit` of a mask, `among` or `outside` some values, `at_least` a value."""

    argument: int
    operator: Literal["any_bit", "among", "outside", "at_least"]
    values: tuple[int, ...]
    mask: int = 0
    upper_half: bool = False
    """Tests the upper 32 bits."""

    def instructions(self, skip: int) -> list[Instruction]:
        """Returns code that falls through if the test holds, and jumps over the next `skip` instructions if not."""
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
    """`call` fails with `error` if all `conditions` hold; always, if there are none."""

    call: str
    conditions: tuple[_ArgumentTest, ...] = ()
    error: int = errno.EPERM

    def instructions(self) -> list[Instruction]:
        code: list[Instruction] = [(RETURN, 0, 0, ERRNO | self.error)]
        for test in reversed(self.conditions):
            code = [*test.instructions(len(code)), *code]
        return code


# Set-user-id and set-group-id: a file that leaves the sandbox through the workspace must not give its owner's rights
# to other users who run it. Folders are refused too, because a filter cannot distinguish them. So are devices (the
# bit is in both S_IFCHR and S_IFBLK): in a sandbox without a user namespace, root could reach a disk through one.
_SET_ID = 0o6000
_DEVICE = 0o020000
_MAY_CREATE = 0o100 | 0o20000000  # O_CREAT, and the bit of O_TMPFILE; the mode counts only with one of them

# CLONE_NEW*: inside a new user namespace a process has every capability, and so reaches parts of the kernel that are
# otherwise reserved for root. Most local exploits of recent years start there.
_NEW_NAMESPACE = 0x7E020000

# They inject input into the terminal that the server was started from, and use its clipboard.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# Plain Linux, with 32-bit or 2.6 names in uname, and querying the current one. Others weaken address randomisation.
_HARMLESS_PERSONALITIES = (0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)

# A lease (or a delegation) makes every process that opens the file wait for its holder, outside the sandbox as well.
_F_SETLEASE, _F_SETDELEG = 1024, 1040

# System V shared memory is charged to no process and persists. Small segments are allowed: databases use them as a
# running marker, and the kernel's limit on their number (4,096) bounds the total.
_MAX_SHARED_BYTES = 64 * 1024
_ANY = 0xFFFFFFFF

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _SEQPACKET = 1, 2, 5
_TYPE_MASK = 0xF  # the other bits are SOCK_CLOEXEC and SOCK_NONBLOCK
_PROTOCOLS = (0, 1, 6, 17, 58, 262)  # the default, ICMP (ping, not raw), TCP, UDP, ICMPv6, MPTCP
_NETLINK_ROUTE = 0

# Calls whose arguments decide. The frequent ones come first: the kernel caches the answer for all others.
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
    _DenyRule("prlimit64", (_ArgumentTest(0, "outside", (0,)),)),  # another process's limits must not be changed
    _DenyRule("shmget", (_ArgumentTest(1, "at_least", (_MAX_SHARED_BYTES + 1,)),)),
    _DenyRule("shmget", (_ArgumentTest(1, "any_bit", (_ANY,), upper_half=True),)),
)

# Refused: families that a network namespace does not confine (vsock), raw packets, and protocols whose rarely used
# code is loaded on demand (SCTP, DCCP, TIPC, AF_ALG).
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

# A datagram socket of a pair can still send to any path, so only connected types are allowed.
_NO_SOCKET_RULES: tuple[_DenyRule, ...] = (
    _DenyRule("socket"),
    _DenyRule("connect"),
    _DenyRule("socketpair", (_ArgumentTest(0, "outside", (_UNIX,)),)),
    _DenyRule("socketpair", (_ArgumentTest(1, "outside", (_STREAM, _SEQPACKET), mask=_TYPE_MASK),)),
)

# Without namespaces these objects are shared with the user's other programs: memory, queues, semaphores.
_NAMED_OBJECT_SYSCALLS = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)

# Without namespaces a run could also change how the user's other processes are scheduled: only its own is allowed.
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
    # Other processes' memory, descriptors and pages. mbind and set_mempolicy stay: they affect only the caller.
    ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "migrate_pages", "move_pages"),
    # Another root, other namespaces, other mounts: ways to rearrange the sandbox from inside.
    ("unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "mount_setattr", "open_tree", "open_tree_attr"),
    ("move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    # Opening files by handle bypasses the permissions of every folder on the way.
    ("name_to_handle_at", "open_by_handle_at"),
    # Asynchronous kernel work: io_uring makes calls that no filter sees; the others often led to root exploits.
    ("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd"),
    # The keyring belongs to the user, not to a namespace.
    ("add_key", "request_key", "keyctl"),
    # Message queues can take half a gigabyte of kernel memory.
    ("msgget",),
    # Memory that no debugger can read, 16-bit segments, and obsolete calls.
    ("memfd_secret", "modify_ldt", "uselib", "lookup_dcookie", "nfsservctl"),
    # The machine's kernel, clock, log, ports, swap, accounting and name. Matters for root without a user namespace.
    ("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    ("settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "syslog", "iopl", "ioperm"),
    ("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup", "sethostname", "setdomainname"),
)


def build_program(*, sockets: AllowedSockets = AllowedSockets.ORDINARY, machine: str | None = None) -> bytes:
    """Builds the filter for `machine` (its uname; by default this one). Raises OSError for an unknown machine."""
    architecture = architecture_of(machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no seccomp filter is known for {machine or platform.machine()}")
    # Another architecture's calls have other numbers. No legitimate program makes them, so the process is killed.
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
    """Whether the filter supports this machine and the kernel accepts seccomp filters."""
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

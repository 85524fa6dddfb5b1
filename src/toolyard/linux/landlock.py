"""Landlock: restricts a thread, and the processes it starts, to the files that rules allow.

Linux 5.13 and later. ABI versions 1 to 7 are known; a newer kernel is used as version 7. The restriction belongs to
the calling *thread* and cannot be lifted, so use a thread that was made for one task. Everything that no rule allows
is refused: reading, writing, executing, creating; TCP from ABI 4 on, abstract sockets and signals to processes
outside from ABI 6 on.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from toolyard.linux.libc import LIBC, check_errno

EXECUTE = 1 << 0
READ_FILE = 1 << 2
READ_FOLDER = 1 << 3
READ = READ_FILE | READ_FOLDER

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_NEWEST_KNOWN_ABI = 7

_FILE_ACCESS_ABI_1 = (1 << 13) - 1
_FILE_ACCESS_ADDED = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # refer, truncate, ioctl on devices
_SINGLE_FILE_ACCESS = (
    EXECUTE | 1 << 1 | READ_FILE | 1 << 14 | 1 << 15
)  # write, truncate, ioctl beside the two named above
_TCP = (4, 0b11)  # bind, connect
_SCOPES = (6, 0b11)  # abstract unix sockets, signals


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("fd", ctypes.c_int32))


@dataclass(frozen=True, slots=True)
class LandlockRule:
    """What stays allowed on the file of `fd`, or beneath it if it is a folder (O_PATH suffices)."""

    fd: int
    access: int


@dataclass(frozen=True, slots=True)
class HandledAccess:
    """The access that a ruleset restricts at one ABI version, and the size of the structure there."""

    files: int
    tcp: int
    scopes: int
    size: int


@cache
def abi_version() -> int:
    """Returns the kernel's Landlock ABI version; 0 if Landlock is missing, switched off or filtered."""
    answer: int = LIBC.syscall(
        _SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
    )
    return max(0, min(answer, _NEWEST_KNOWN_ABI))


def handled_access(abi: int) -> HandledAccess:
    """Returns every kind of access that can be restricted at this ABI version."""
    files = _FILE_ACCESS_ABI_1
    for since, access in _FILE_ACCESS_ADDED.items():
        if abi >= since:
            files |= access
    tcp = _TCP[1] if abi >= _TCP[0] else 0
    scopes = _SCOPES[1] if abi >= _SCOPES[0] else 0
    fields = 1 + (abi >= _TCP[0]) + (abi >= _SCOPES[0])
    return HandledAccess(files, tcp, scopes, fields * ctypes.sizeof(ctypes.c_uint64))


def all_access(abi: int, *, folder: bool) -> int:
    """Returns all access rights for a folder and its content, or for a single file."""
    files = handled_access(abi).files
    return files if folder else files & _SINGLE_FILE_ACCESS


def ruleset_attributes(abi: int, *, with_tcp_and_scopes: bool) -> bytes:
    """Returns `struct landlock_ruleset_attr` as the system call takes it.

    `with_tcp_and_scopes` also restricts TCP, abstract sockets and signals. A sandbox with namespaces of its own has
    no other processes to reach, and its first process must be able to signal all the others.
    """
    taken = handled_access(abi)
    return bytes(
        _Ruleset(taken.files, taken.tcp if with_tcp_and_scopes else 0, taken.scopes if with_tcp_and_scopes else 0)
    )[: taken.size]


def restrict_thread(rules: Sequence[LandlockRule], *, abi: int | None = None) -> None:
    """Permanently restricts the calling thread, and the processes it starts, to `rules`. Raises OSError."""
    taken = handled_access(abi_version() if abi is None else abi)
    structure = _Ruleset(taken.files, taken.tcp, taken.scopes)
    ruleset = check_errno(
        LIBC.syscall(_SYS_CREATE_RULESET, ctypes.byref(structure), ctypes.c_size_t(taken.size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for rule in rules:
            beneath = _PathBeneath(rule.access, rule.fd)
            check_errno(
                LIBC.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0)),
                "landlock_add_rule",
            )
        zero = ctypes.c_ulong(0)
        check_errno(LIBC.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero), "no_new_privs")
        check_errno(LIBC.syscall(_SYS_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)

"""Landlock: a thread gives up every file it is not explicitly left, for itself and for the processes it starts.

Linux 5.13 and later; levels ("ABIs") 1 to 7 are known, a newer kernel is used as level 7. The restriction belongs to
the calling *thread* and can never be taken back, so it is put on a thread made for one task. Whatever is not covered
by a rule is refused: reading, writing, executing, creating; TCP where the level has it (4), abstract sockets and
signals to the outside (6).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from toolyard.linux.libc import LIBC, checked

EXECUTE = 1 << 0
READ_FILE = 1 << 2
READ_FOLDER = 1 << 3
READ = READ_FILE | READ_FOLDER

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_NEWEST_KNOWN = 7

_FILES_FIRST_LEVEL = (1 << 13) - 1
_FILES_ADDED = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # refer, truncate, ioctl on devices
_OF_A_FILE = EXECUTE | 1 << 1 | READ_FILE | 1 << 14 | 1 << 15  # write, truncate, ioctl beside the two named above
_TCP = (4, 0b11)  # bind, connect
_SCOPES = (6, 0b11)  # abstract unix sockets, signals


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("fd", ctypes.c_int32))


@dataclass(frozen=True, slots=True)
class Rule:
    """What stays allowed on the file `fd` stands for, or beneath it when it is a folder (O_PATH suffices)."""

    fd: int
    access: int


@dataclass(frozen=True, slots=True)
class Handled:
    """What a ruleset takes away at one level of Landlock, and how much of the structure that level knows."""

    files: int
    tcp: int
    scopes: int
    size: int


@cache
def level() -> int:
    """The level this kernel offers; 0 where there is no Landlock, or where it is switched off or filtered."""
    answer: int = LIBC.syscall(
        _SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
    )
    return max(0, min(answer, _NEWEST_KNOWN))


def handled(at: int) -> Handled:
    """Everything that can be taken away at level `at`."""
    files = _FILES_FIRST_LEVEL
    for since, access in _FILES_ADDED.items():
        if at >= since:
            files |= access
    tcp = _TCP[1] if at >= _TCP[0] else 0
    scopes = _SCOPES[1] if at >= _SCOPES[0] else 0
    fields = 1 + (at >= _TCP[0]) + (at >= _SCOPES[0])
    return Handled(files, tcp, scopes, fields * ctypes.sizeof(ctypes.c_uint64))


def everything(at: int, *, folder: bool) -> int:
    """All that can be done with a folder and what lies in it, or with a single file."""
    files = handled(at).files
    return files if folder else files & _OF_A_FILE


def attributes(at: int, *, reach: bool) -> bytes:
    """The ruleset's structure as the system call takes it.

    `reach` says whether it also takes away what reaches others: TCP, abstract sockets, signals. A sandbox with
    namespaces of its own has nobody else to reach, and its first process must be able to signal all the others.
    """
    taken = handled(at)
    return bytes(_Ruleset(taken.files, taken.tcp if reach else 0, taken.scopes if reach else 0))[: taken.size]


def restrict_thread(rules: Sequence[Rule], *, at: int | None = None) -> None:
    """Leave the calling thread, and what it starts, nothing but `rules`. For good. Raises OSError."""
    taken = handled(level() if at is None else at)
    structure = _Ruleset(taken.files, taken.tcp, taken.scopes)
    ruleset = checked(
        LIBC.syscall(_SYS_CREATE_RULESET, ctypes.byref(structure), ctypes.c_size_t(taken.size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for rule in rules:
            beneath = _PathBeneath(rule.access, rule.fd)
            checked(
                LIBC.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0)),
                "landlock_add_rule",
            )
        zero = ctypes.c_ulong(0)
        checked(LIBC.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero), "no_new_privs")
        checked(LIBC.syscall(_SYS_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)

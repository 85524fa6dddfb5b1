"""Walls that a process puts around itself: no new privileges, Landlock, seccomp. For good.

The host decides what the walls let through and hands over finished structures; this file only makes the system
calls. Nothing is skipped in silence: a wall that was asked for and does not stand raises OSError.
"""

from __future__ import annotations

import ctypes
import os

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_CAPABILITY_VERSION = 0x20080522
_SIGKILL = 9
_SECCOMP_MODE_FILTER = 2
_BPF_INSTRUCTION_BYTES = 8
_TYPE_OF_FILE, _FOLDER = 0o170000, 0o040000  # `stat` would be one more import at every start

_LIBC = ctypes.CDLL(None, use_errno=True)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("fd", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def raise_walls(ruleset: bytes, rules: list[tuple[str, int, int]], seccomp: bytes) -> None:
    """`ruleset` is Landlock's attribute structure and `rules` what stays open; empty means no such wall is wanted."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if ruleset:
        _landlock(ruleset, rules)
    if seccomp:
        program = _Program(len(seccomp) // _BPF_INSTRUCTION_BYTES, seccomp)
        _checked(_LIBC.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program)), "seccomp")


def adopt_orphans() -> None:
    """Become the parent of what our descendants leave behind, where we are not the first process anyway."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Be killed when the parent dies, where no namespace sees to that."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def drop_capabilities() -> None:
    """Root keeps its name and nothing else. Capabilities of the user's namespace are gone for good."""
    capability = 0
    while _LIBC.prctl(_PR_CAPBSET_READ, ctypes.c_ulong(capability)) >= 0:
        # Fails without the right to; then the set below is empty already, and no_new_privs keeps it so.
        _LIBC.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability))
        capability += 1
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_LIBC.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")


def set_readable(*, by_siblings: bool) -> None:
    """Whether processes of the same user may look into this one's memory and files (`/proc/PID`)."""
    _prctl(_PR_SET_DUMPABLE, int(by_siblings))


def _landlock(attributes: bytes, rules: list[tuple[str, int, int]]) -> None:
    ruleset = _checked(
        _LIBC.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for path, of_folder, of_file in rules:
            try:
                fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # gone since the rules were made: one thing less that is allowed
            try:
                is_folder = os.fstat(fd).st_mode & _TYPE_OF_FILE == _FOLDER
                beneath = _PathBeneath(of_folder if is_folder else of_file, fd)
                _checked(
                    _LIBC.syscall(
                        _LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0)
                    ),
                    path,
                )
            finally:
                os.close(fd)
        _checked(_LIBC.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result

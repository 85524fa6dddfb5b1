"""Restrictions that a process applies to itself, permanently: no new privileges, Landlock, seccomp.

The host decides what is allowed and sends finished structures; this module only makes the system calls. Nothing is
skipped silently: a restriction that cannot be applied raises OSError.
"""

from __future__ import annotations

import os
import sys

from toolyard_runtime import libc

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_CAPABILITY_VERSION = 0x20080522
_SIGKILL = 9
_SECCOMP_MODE_FILTER = 2
_BPF_INSTRUCTION_BYTES = 8
_TYPE_OF_FILE, _FOLDER = 0o170000, 0o040000  # `stat` would be one more import at every start


def apply_restrictions(ruleset: bytes, rules: list[tuple[str, int, int]], seccomp: bytes) -> None:
    """Applies Landlock (`ruleset` and `rules`) and a seccomp filter; an empty value skips that restriction."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if ruleset:
        _apply_landlock(ruleset, rules)
    if seccomp:
        _install_seccomp(seccomp)


def become_subreaper() -> None:
    """Becomes the parent of orphaned descendants, for a process that is not the first of its namespace."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent dies, for a sandbox without a pid namespace."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def drop_capabilities() -> None:
    """Drops all capabilities of the user namespace permanently: root keeps only its name."""
    capability = 0
    try:
        while True:
            _prctl(_PR_CAPBSET_READ, capability)
            try:
                _prctl(_PR_CAPBSET_DROP, capability)
            except PermissionError:
                break  # nothing to drop: the set is already empty, and no_new_privs keeps it so
            capability += 1
    except OSError:
        pass  # there is no capability with this number: all are dropped
    libc.call("capset", _CAPABILITY_VERSION.to_bytes(4, sys.byteorder) + bytes(4), bytes(24))


def set_dumpable(*, enabled: bool) -> None:
    """Sets whether processes of the same user may read this one's memory and files (`/proc/PID`)."""
    _prctl(_PR_SET_DUMPABLE, int(enabled))


def _apply_landlock(attributes: bytes, rules: list[tuple[str, int, int]]) -> None:
    ruleset = libc.call("syscall", _LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0, about="Landlock")
    try:
        for path, of_folder, of_file in rules:
            try:
                fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # it was removed since the rules were made, so nothing needs to be allowed
            try:
                is_folder = os.fstat(fd).st_mode & _TYPE_OF_FILE == _FOLDER
                access = of_folder if is_folder else of_file
                beneath = access.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
                libc.call("syscall", _LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, beneath, 0, about=path)
            finally:
                os.close(fd)
        libc.call("syscall", _LANDLOCK_RESTRICT_SELF, ruleset, 0, about="Landlock")
    finally:
        os.close(ruleset)


def _install_seccomp(instructions: bytes) -> None:
    """Installs the filter, unless bubblewrap has done it.

    The structure has a pointer, so this needs all of ctypes.
    """
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    program = Program(len(instructions) // _BPF_INSTRUCTION_BYTES, instructions)
    taken = ctypes.CDLL(None, use_errno=True).prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program)
    )
    if taken < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "seccomp")


def _prctl(option: int, value: int) -> None:
    libc.call("prctl", option, value, 0, 0, 0, about=f"prctl {option}")

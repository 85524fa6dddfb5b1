"""Classic BPF for seccomp: instructions, the fields of seccomp_data, and the supported architectures."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from toolyard.linux.syscall_numbers import SyscallNumbers

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""

LOAD, AND, RETURN = 0x20, 0x54, 0x06
IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT = 0x15, 0x35, 0x45

ALLOW, USER_NOTIFICATION, ERRNO, KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000

# struct seccomp_data; both architectures are little-endian, so an argument's lower half comes first.
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT, ARGUMENT_SIZE = 0, 4, 16, 8

X32_BIT = 0x40000000
"""x86_64 calls with 32-bit pointers: a second table of numbers."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A supported machine architecture, by the name that uname gives it."""

    name: Literal["x86_64", "aarch64"]
    audit_arch: int

    def syscall_number(self, numbers: SyscallNumbers) -> int | None:
        """Returns the system call's number here; None if this architecture does not have it."""
        return numbers.x86_64 if self.name == "x86_64" else numbers.aarch64


_ARCHITECTURES = {
    "x86_64": Architecture("x86_64", 0xC000003E),
    "aarch64": Architecture("aarch64", 0xC00000B7),
}


def architecture_of(machine: str | None) -> Architecture | None:
    """Returns the architecture of `machine` (its uname; by default this one); None if it is not supported."""
    if machine is None and struct.calcsize("P") != ctypes.sizeof(ctypes.c_uint64):
        return None  # a 32-bit Python on a 64-bit kernel makes 32-bit calls
    return _ARCHITECTURES.get(machine or platform.machine())


def assemble(code: Iterable[Instruction]) -> bytes:
    """Returns the instructions as an array of `struct sock_filter`."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)

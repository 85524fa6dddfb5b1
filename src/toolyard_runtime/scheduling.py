"""Sets time slices: an active run goes before workers that are only being prepared.

Linux 6.12 and later let any process request a longer time slice, and run it after those with shorter ones. Older
kernels ignore it; a refusal only costs speed.
"""

from __future__ import annotations

import os
import sys

from toolyard_runtime import libc

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
_STRUCTURE_BYTES = 48
_SLICE_OFFSET = 24
_NICE_OFFSET = 16
_BACKGROUND_SLICE_NS = 100_000_000
_DEFAULT_SLICE_NS = 0


def set_background_slice() -> None:
    """Lets other processes go first from now on, for this process and those forked from it."""
    _set_slice(_BACKGROUND_SLICE_NS)


def set_default_slice() -> None:
    """Restores the default time slice."""
    _set_slice(_DEFAULT_SLICE_NS)


def _set_slice(nanoseconds: int) -> None:
    if _SCHED_SETATTR is None:
        return
    wanted = bytearray(_STRUCTURE_BYTES)
    _write_field(wanted, 0, _STRUCTURE_BYTES, 4)
    _write_field(wanted, _NICE_OFFSET, os.getpriority(os.PRIO_PROCESS, 0), 4)
    _write_field(wanted, _SLICE_OFFSET, nanoseconds, 8)
    libc.call_unchecked("syscall", _SCHED_SETATTR, 0, bytes(wanted), 0)


def _write_field(structure: bytearray, offset: int, value: int, size: int) -> None:
    structure[offset : offset + size] = value.to_bytes(size, sys.byteorder, signed=True)

"""A worker's part in recording what a run changes: installs the filter and passes the listener to the supervisor.

The filter applies to the worker and all that it starts, permanently. The worker never holds the listener while agent
code runs. Imported only if runs are recorded, because it needs all of ctypes.
"""

from __future__ import annotations

import _socket
import ctypes
import os
from _struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard_runtime.messages import Recording

_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_BPF_INSTRUCTION_BYTES = 8
_EINVAL = 22
_DESCRIPTOR = Struct("@i")
_LISTENING, _FAILED = b"1", b"0"
_LISTENER_LINK = "anon_inode:seccomp notify"


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)


def install(recording: Recording, requests: int) -> None:
    """Reports changes of this process from now on to the supervisor at the other end of the socket `requests`.

    If the kernel refuses, the run continues without a record, and the supervisor is informed.
    """
    listener = _create_listener(recording)
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, requests)
    try:
        if listener < 0:
            link.send(_FAILED)
            return
        handed = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTOR.pack(listener))
        link.sendmsg([_LISTENING], [handed])
        os.close(listener)
    finally:
        link.detach()


def receive_listener(requests: int) -> int:
    """Receives the listener from the worker at the other end of `requests`; -1 if it has none."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, requests)
    room = _socket.CMSG_SPACE(_DESCRIPTOR.size)
    try:
        _, handed, _, _ = link.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
    except OSError:  # the worker has just died
        return -1
    finally:
        link.detach()
    for level, kind, data in handed:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS and len(data) == _DESCRIPTOR.size:
            (listener,) = _DESCRIPTOR.unpack(data)
            if os.readlink(f"/proc/self/fd/{listener}") == _LISTENER_LINK:
                return listener
            os.close(listener)
    return -1


def _create_listener(recording: Recording) -> int:
    """Returns the listener's descriptor; -1 if the kernel is too old, or an outer filter already listens."""
    instructions = recording["filter"]
    program = _Program(len(instructions) // _BPF_INSTRUCTION_BYTES, instructions)
    # Without the second flag (Linux 5.19) a signal can interrupt calls that are otherwise never interrupted.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = _libc.syscall(
            ctypes.c_long(recording["seccomp"]),
            ctypes.c_ulong(_SET_MODE_FILTER),
            ctypes.c_ulong(flags),
            ctypes.byref(program),
        )
        if listener >= 0 or ctypes.get_errno() != _EINVAL:
            return listener
    return -1

"""A worker's part in recording what a run changes: it installs the filter and hands the listener to the supervisor.

The filter holds for the worker and all it starts, for good. The listener is never held while the agent's code runs.
Imported only where runs are recorded: it takes the whole of ctypes.
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
    """Announce what this process changes from now on to whoever is at the other end of the socket `requests`.

    Where the kernel refuses, the run goes on without; the other end is told.
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
    """The listener that the worker at the other end of `requests` handed over; -1 where it has none."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, requests)
    room = _socket.CMSG_SPACE(_DESCRIPTOR.size)
    try:
        _, handed, _, _ = link.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
    except OSError:  # it died just now
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
    """Its descriptor; -1 where the kernel refuses: it is too old, or somebody around us listens already."""
    instructions = recording["filter"]
    program = _Program(len(instructions) // _BPF_INSTRUCTION_BYTES, instructions)
    # Without the second flag (Linux 5.19) a signal can interrupt a call that never was interrupted before.
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

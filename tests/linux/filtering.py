"""A child process with the seccomp filter on it.

To tell the filter's refusals from the kernel's own, `marked` replaces its error numbers by ones no call returns.
"""

import errno
import json
import os
import struct
import subprocess
import sys

import pytest

from toolyard.linux import seccomp
from toolyard.linux.seccomp import AllowedSockets, build_program
from toolyard.linux.syscall_numbers import SYSCALL_NUMBERS

needs_seccomp = pytest.mark.skipif(not seccomp.is_available(), reason="this kernel takes no seccomp filter")

MACHINE = os.uname().machine
REFUSED, MISSING = 1001, 1002  # what the marked filter answers for EPERM and ENOSYS
SIZE = struct.calcsize("<HBBI")

# Installs the filter (argv[1], hex; none if empty), then makes calls (argv[2], JSON) or becomes a program (argv[3:]).
CHILD = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
code = bytes.fromhex(sys.argv[1])
class Fprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))
if code:
    fprog = Fprog(len(code) // 8, code)
    zero = ctypes.c_ulong(0)
    assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(fprog), zero, zero) != 0:
        sys.exit("the kernel refused the filter: " + os.strerror(ctypes.get_errno()))
if sys.argv[3:]:
    os.execvp(sys.argv[3], sys.argv[3:])
answers = []
for number, arguments in json.loads(sys.argv[2]):
    keep = [a.encode() if isinstance(a, str) else a for a in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(a if isinstance(a, bytes) else ctypes.c_long(a) for a in keep))
    if result == 0 and number in NEW_PROCESS:
        os._exit(0)
    answers.append(ctypes.get_errno() if result < 0 else 0)
print(json.dumps(answers))
"""


def number(call):
    return getattr(SYSCALL_NUMBERS[call], MACHINE)


def marked(code):
    """The filter with error numbers that only it can have given."""
    swap = {0x50000 | errno.EPERM: 0x50000 | REFUSED, 0x50000 | errno.ENOSYS: 0x50000 | MISSING}
    parts = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), SIZE)]
    return b"".join(struct.pack("<HBBI", c, t, f, swap.get(k, k) if c == 0x06 else k) for c, t, f, k in parts)


def child(code, calls=(), argv=(), **options):
    script = CHILD.replace("NEW_PROCESS", str((number("clone"),)))
    arguments = [sys.executable, "-I", "-c", script, code.hex(), json.dumps(calls), *argv]
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=50, start_new_session=True, check=False, **options
    )


def answers(code, *calls):
    """The errno of each (name or number, *arguments), 0 for success."""
    numbered = [(number(call) if isinstance(call, str) else call, arguments) for call, *arguments in calls]
    done = child(code, numbered)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def with_and_without(*calls, sockets=AllowedSockets.ORDINARY):
    return answers(marked(build_program(sockets=sockets)), *calls), answers(b"", *calls)


def present(*calls):
    return [call for call in calls if number(call[0]) is not None]

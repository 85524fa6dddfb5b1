"""The seccomp filter: what it refuses, and that nothing gets round it.

The filter runs for real, in a child process (`filtering`), mostly with error numbers that no call returns.
"""

import errno
import json
import os
import re
import signal
import socket
import struct
import sys
from functools import cache
from pathlib import Path

import pytest

from toolyard.linux import seccomp
from toolyard.linux.seccomp import AllowedSockets, build_program
from toolyard.linux.syscall_numbers import SYSCALL_NUMBERS

from .filtering import (
    MACHINE,
    MISSING,
    REFUSED,
    SIZE,
    answers,
    child,
    marked,
    needs_seccomp,
    number,
    present,
    with_and_without,
)

NOTHING_VALID = (-1,) * 6  # as flag, pointer or descriptor: whatever reaches the kernel fails there
AT_FDCWD = -100


@cache
def always_refused():
    return [call for group in seccomp._DENIED_SYSCALLS for call in group if number(call) is not None]


class Simulated:
    """Runs a filter as the kernel would: for the other architecture, and for calls too dangerous to make."""

    def __init__(self, code):
        self.code = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), SIZE)]

    def __call__(self, audit, call, *arguments):
        data = struct.pack("<iIQ6Q", call, audit, 0, *(a & (1 << 64) - 1 for a in (*arguments, *(0,) * 6)[:6]))
        at = accumulator = 0
        while True:
            code, if_true, if_false, constant = self.code[at]
            at += 1
            match code:
                case 0x20:
                    (accumulator,) = struct.unpack_from("<I", data, constant)
                case 0x54:
                    accumulator &= constant
                case 0x06:
                    return constant
                case 0x15:
                    at += if_true if accumulator == constant else if_false
                case 0x35:
                    at += if_true if accumulator >= constant else if_false
                case 0x45:
                    at += if_true if accumulator & constant else if_false
                case _:
                    raise AssertionError(f"unknown instruction {code:#x}")


# --- the program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sockets", AllowedSockets)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_is_short_and_every_jump_lands_inside_it(machine, sockets):
    code = Simulated(build_program(sockets=sockets, machine=machine)).code
    assert len(code) <= 400
    for at, (instruction, if_true, if_false, _) in enumerate(code):
        if instruction & 7 == 5:
            assert at + 1 + max(if_true, if_false) < len(code)
    assert code[-1] == (0x06, 0, 0, 0x7FFF0000)


def test_an_unknown_machine_has_no_filter_and_is_told_so():
    with pytest.raises(OSError, match="no seccomp filter is known for riscv64") as caught:
        build_program(machine="riscv64")
    assert caught.value.errno == errno.ENOSYS


@pytest.mark.parametrize(
    ("field", "header", "pattern"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
        ("aarch64", "/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+) (\d+)"),
    ],
)
def test_the_numbers_are_those_of_the_kernel_headers(field, header, pattern):
    if not Path(header).exists():
        pytest.skip("the kernel headers are not installed")
    known = {name: int(value) for name, value in re.findall(pattern, Path(header).read_text())}
    ours = {name: getattr(numbers, field) for name, numbers in SYSCALL_NUMBERS.items()}
    # Headers may be older or newer than a call; what both know must agree.
    assert {n: v for n, v in ours.items() if n in known} == {n: known[n] for n in ours if n in known}
    assert len(set(ours) & set(known)) >= 50
    assert [n for n, v in ours.items() if v is None and n in known] == []


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_both_architectures_refuse_the_same(machine, audit):
    run = Simulated(build_program(machine=machine))
    eperm, enosys, allow = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x7FFF0000
    numbers = {name: getattr(n, machine) for name, n in SYSCALL_NUMBERS.items() if getattr(n, machine) is not None}
    for group in seccomp._DENIED_SYSCALLS:
        assert {run(audit, numbers[call]) for call in group if call in numbers} <= {eperm}
    assert run(audit, numbers["clone3"]) == run(audit, numbers["openat2"]) == enosys
    assert run(audit, numbers["openat"], 0, 0, os.O_CREAT, 0o4755) == eperm
    assert run(audit, numbers["openat"], 0, 0, os.O_CREAT, 0o755) == allow
    modes = {"creat": 1, "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
    for call, at in modes.items():
        for place in range(6) if call in numbers else ():
            arguments = [0o6000 if n == place else 0 for n in range(6)]
            assert run(audit, numbers[call], *arguments) == (eperm if place == at else allow)
    assert run(audit, numbers["clone"], 0x10000000) == eperm
    assert run(audit, numbers["clone"], 0x3D0F00) == allow  # a thread
    assert run(audit, numbers["socket"], 1, 1) == allow
    foreign = 0x40000003 if machine == "x86_64" else 0x40000028
    assert run(foreign, 20) == 0x80000000


# --- refusals, for real --------------------------------------------------------------------------------------------


@needs_seccomp
def test_dangerous_calls_are_refused_whatever_they_ask():
    calls = always_refused()
    assert len(calls) > 45
    found = answers(marked(build_program()), *((call, *NOTHING_VALID) for call in calls))
    assert dict(zip(calls, found, strict=True)) == dict.fromkeys(calls, REFUSED)


@needs_seccomp
def test_the_refusal_is_eperm_and_the_calls_work_without_the_filter(tmp_path):
    target = tmp_path / "file"
    target.write_text("")
    calls = [
        ("ptrace", 16, -1, 0, 0),
        ("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
        ("fchmodat", AT_FDCWD, str(target), 0o4755),
        ("personality", 0x0040000),
    ]
    assert answers(build_program(), *calls) == [errno.EPERM] * len(calls)
    assert answers(b"", *calls) == [errno.ESRCH, 0, 0, 0]


@needs_seccomp
def test_calls_that_hide_their_arguments_look_missing_so_that_programs_fall_back():
    calls = [("clone3", 0, 0), ("openat2", AT_FDCWD, "/", 0, 0)]
    assert answers(build_program(), *calls) == [errno.ENOSYS, errno.ENOSYS]
    assert answers(b"", *calls) == [errno.EINVAL, errno.EINVAL]


@needs_seccomp
@pytest.mark.parametrize(
    "flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x7E020000]
)
def test_no_process_starts_in_a_new_namespace(flag):
    refused, plain = with_and_without(
        ("clone", flag | signal.SIGCHLD, 0, 0, 0, 0), ("clone", signal.SIGCHLD, 0, 0, 0)
    )
    assert refused == [REFUSED, 0]
    assert plain[0] != REFUSED
    assert plain[1] == 0


@needs_seccomp
def test_no_way_of_setting_a_mode_sets_an_id_bit(tmp_path):
    files = [tmp_path / str(n) for n in range(4)]
    for file in files[:2]:
        file.write_text("")
    old, other, new, unmade = map(str, files)
    create, temporary = os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_WRONLY
    for bits in (0o4000, 0o2000, 0o6000, 0o4000 | 1 << 16):
        mode = bits | 0o755
        calls = present(
            ("chmod", old, mode),
            ("fchmodat", AT_FDCWD, old, mode),
            ("fchmodat2", AT_FDCWD, old, mode, 0),
            ("creat", new, mode),
            ("open", new, create, mode),
            ("openat", AT_FDCWD, new, create, mode),
            ("openat", AT_FDCWD, str(tmp_path), temporary, mode),
            ("mknod", new, mode, 0),
            ("mknodat", AT_FDCWD, new, mode | 0o100000, 0),
            ("fchmod", 0, mode),
        )
        with Path(other).open() as stream:
            done = child(marked(build_program()), [(number(call), rest) for call, *rest in calls], stdin=stream)
        assert json.loads(done.stdout) == [REFUSED] * len(calls)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    assert not any(os.stat(file).st_mode & 0o6000 for file in files[:2])

    # Without the filter the same call does it.
    assert answers(b"", ("openat", AT_FDCWD, unmade, create, 0o4755)) == [0]
    assert os.stat(unmade).st_mode & 0o4000


@needs_seccomp
def test_the_upper_half_of_an_argument_hides_nothing(tmp_path):
    high = 1 << 32
    target = tmp_path / "file"
    target.write_text("")
    refused, plain = with_and_without(
        ("fchmodat", AT_FDCWD, str(target), high | 0o4755),
        ("openat", AT_FDCWD, str(tmp_path / "new"), high | os.O_CREAT, high | 0o4755),
        ("ioctl", 0, high | 0x5412, 0),
        ("socket", high | 17, high | 3, 0),
        ("clone", high | 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    )
    assert refused == [REFUSED] * 5
    assert REFUSED not in plain
    assert plain[:2] == [0, 0]  # the kernel does ignore it


@needs_seccomp
def test_modes_that_do_not_count_are_left_alone(tmp_path):
    here = str(tmp_path)
    calls = present(
        ("openat", AT_FDCWD, here, os.O_RDONLY | os.O_DIRECTORY, 0o7777),  # no O_CREAT: not a mode
        ("open", here, os.O_RDONLY, 0o4755),
        ("fchmodat", AT_FDCWD, here, 0o1755),  # the sticky bit
        ("mknodat", AT_FDCWD, here + "/pipe", 0o010644, 0),
        ("mknodat", AT_FDCWD, here + "/socket", 0o140644, 0),
        ("mknodat", AT_FDCWD, here + "/file", 0o600, 0),
    )
    assert answers(marked(build_program()), *calls) == [0] * len(calls)


@needs_seccomp
def test_devices_are_not_made(tmp_path):
    path = str(tmp_path / "device")
    calls = present(
        ("mknodat", AT_FDCWD, path, 0o020600, 0x103),
        ("mknodat", AT_FDCWD, path, 0o060600, 0x700),
        ("mknod", path, 0o020600, 0x103),
    )
    assert answers(marked(build_program()), *calls) == [REFUSED] * len(calls)


@needs_seccomp
def test_nothing_is_typed_into_a_terminal():
    refused, plain = with_and_without(("ioctl", 0, 0x5412, 0), ("ioctl", 0, 0x541C, 0), ("ioctl", 0, 0x5401, 0))
    assert refused[:2] == [REFUSED, REFUSED]
    assert refused[2] == plain[2] == errno.ENOTTY
    assert REFUSED not in plain


@needs_seccomp
def test_only_harmless_personalities_are_taken():
    values = [0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF, 0x40000, 0x400000, 0x100000, 0x1]
    found = answers(marked(build_program()), *(("personality", value) for value in values))
    assert found == [0] * 5 + [REFUSED] * 4


@needs_seccomp
def test_ordinary_sockets_are_made_and_no_others():
    flags = 0o2000000 | 0o4000  # SOCK_CLOEXEC, SOCK_NONBLOCK
    fine = [(1, 1, 0), (1, 2, 0), (1, 5, 0), (2, 1, 0), (2, 2 | flags, 17), (2, 1 | flags, 6), (16, 3, 0)]
    refused = [
        (2, 3, 1),  # raw
        (2, 3 | flags, 255),
        (10, 3, 58),
        (2, 10, 0x300),  # SOCK_PACKET
        (2, 5, 132),  # SCTP
        (2, 1, 132),
        (2, 6, 33),  # DCCP
        (17, 3, 0x300),  # packet
        (38, 5, 0),  # AF_ALG
        (40, 1, 0),  # vsock, which no network namespace holds back
        (30, 1, 0),  # TIPC
        (44, 3, 0),  # XDP
        (16, 3, 16),  # generic netlink
        (16, 3, 12),  # netfilter
        (-1, 1, 0),
    ]
    made, plain = with_and_without(*(("socket", *call) for call in fine + refused))
    assert made == [0] * len(fine) + [REFUSED] * len(refused)
    assert REFUSED not in plain
    assert plain[: len(fine)] == [0] * len(fine)
    assert plain[-3] == 0  # generic netlink is anyone's without the filter


@needs_seccomp
def test_without_sockets_only_connected_pairs_are_left():
    script = """
import errno, socket, os, sys
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
    except PermissionError:
        continue
    sys.exit(f"{family!r} was made")
one, two = socket.socketpair()
one.sendall(b"x")
assert two.recv(1) == b"x"
socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    try:
        socket.socketpair(socket.AF_UNIX, kind)
    except PermissionError:
        continue
    sys.exit(f"a pair of {kind!r} was made")
"""
    done = child(build_program(sockets=AllowedSockets.NONE), argv=[sys.executable, "-I", "-c", script])
    assert (done.returncode, done.stderr) == (0, "")


DATAGRAM_OUT = """
import socket, sys
one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.sendto(b"out", sys.argv[1])
"""


@needs_seccomp
def test_a_pair_of_datagram_sockets_would_reach_outside_and_is_refused(tmp_path):
    path = str(tmp_path / "service")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(path)
        service.settimeout(5)
        argv = [sys.executable, "-I", "-c", DATAGRAM_OUT, path]
        assert "PermissionError" in child(build_program(sockets=AllowedSockets.NONE), argv=argv).stderr
        assert child(b"", argv=argv).returncode == 0
        assert service.recv(10) == b"out"
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.recv(10)


OTHER_TABLE = """
import ctypes, mmap
# mov eax, 20 (getpid of i386); int 0x80; ret
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""


@needs_seccomp
@pytest.mark.skipif(MACHINE != "x86_64", reason="one processor with two more tables of system calls")
def test_the_other_tables_of_the_same_processor_are_closed():
    x32 = 0x40000000
    assert answers(marked(build_program()), (x32 | 39,), (x32 | 101, 0, 0, 0, 0), (-1,)) == [MISSING] * 3
    done = child(build_program(), argv=[sys.executable, "-I", "-c", OTHER_TABLE])
    assert (done.returncode, done.stdout) == (-signal.SIGSYS, "")
    assert child(b"", argv=[sys.executable, "-I", "-c", OTHER_TABLE]).returncode != -signal.SIGSYS

"""What the filter refuses because its effect goes beyond the one who asks: leases, others' limits, lasting memory."""

import errno
import os

import pytest

from toolyard.linux.seccomp import AllowedSockets, build_program

from .filtering import REFUSED, answers, child, marked, needs_seccomp, number, with_and_without

pytestmark = needs_seccomp

SET_LEASE, SET_DELEGATION, GET_LEASE, GET_FLAGS = 1024, 1040, 1025, 3
WRITE_LOCK = 1
HIGH = 1 << 32
NOFILE = 7
NOBODYS = 0x7051  # a key that nothing has; without a flag to make it, nothing is made
SMALL = 64 * 1024


def test_nobody_takes_a_lease_on_a_file_that_others_want_to_open():
    calls = [("fcntl", 0, SET_LEASE, WRITE_LOCK), ("fcntl", 0, HIGH | SET_LEASE, WRITE_LOCK)]
    calls.append(("fcntl", 0, SET_DELEGATION, 0))
    refused, plain = with_and_without(*calls)
    assert refused == [REFUSED] * 3
    assert REFUSED not in plain


FILTERS = (b"", build_program())


def test_a_lease_is_given_without_the_filter(tmp_path):
    (tmp_path / "file").write_text("")
    with (tmp_path / "file").open() as stream:
        found = [
            child(code, [(number("fcntl"), (0, SET_LEASE, WRITE_LOCK))], stdin=stream).stdout for code in FILTERS
        ]
    assert found == ["[0]\n", f"[{errno.EPERM}]\n"]


def test_other_questions_about_a_descriptor_are_answered():
    calls = [("fcntl", 0, GET_LEASE, 0), ("fcntl", 0, GET_FLAGS, 0), ("fcntl", 0, 1030, 64), ("fcntl", 0, 1, 0)]
    assert REFUSED not in answers(marked(build_program()), *calls)


def test_limits_are_set_for_oneself_only():
    nobody_else = [("prlimit64", pid, NOFILE, 0, 0) for pid in (1, os.getpid(), -1, HIGH | 1)]
    refused, plain = with_and_without(*nobody_else, ("prlimit64", 0, NOFILE, 0, 0))
    assert refused == [REFUSED] * 4 + [0]
    assert plain[1] == 0


def test_ulimit_goes_on_working():
    done = child(build_program(), argv=("bash", "-c", "ulimit -n 20; ulimit -Hn; ulimit -Sc 0; ulimit -c"))
    assert (done.returncode, done.stdout) == (0, "20\n0\n")


@pytest.mark.parametrize("size", [SMALL + 1, 1 << 30, HIGH, HIGH | 1, 1 << 63])
def test_no_large_memory_is_shared_by_name(size):
    """It outlives who made it, and counts towards nobody's limit."""
    refused, plain = with_and_without(("shmget", NOBODYS, size, 0))
    assert refused == [REFUSED]
    assert plain != [REFUSED]


def test_a_small_one_is_for_programs_that_mark_their_place_by_it():
    ids = "import ctypes; c = ctypes.CDLL(None); n = c.shmget(0, 65536, 0o1600); print(n >= 0, c.shmctl(n, 0, 0))"
    done = child(build_program(), argv=("python3", "-c", ids))
    assert done.stdout == "True 0\n"


def test_queues_that_last_are_refused():
    refused, plain = with_and_without(("msgget", NOBODYS, 0), ("msgget", HIGH | NOBODYS, 0))
    assert refused == [REFUSED] * 2
    assert REFUSED not in plain


OBJECTS = ("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv")
OBJECTS += ("msgctl", "mq_open", "mq_unlink")


def test_without_a_space_of_its_own_no_object_of_others_is_reached():
    calls = [(call, NOBODYS, 0, 0, 0) for call in OBJECTS]
    refused, plain = with_and_without(*calls, sockets=AllowedSockets.NONE)
    assert dict(zip(OBJECTS, refused, strict=True)) == dict.fromkeys(OBJECTS, REFUSED)
    assert REFUSED not in plain

"""Writing the audit log: what is on disk, several writers, killed writers, a full disk."""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import asdict, replace

import pytest

from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.limits import Limits
from toolyard.storage import audit_files
from toolyard.storage.audit_files import GENESIS, LINE_BYTES, Head, digest
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import read
from toolyard.storage.audit_verifier import Verification, verify

EVENT = Event(
    call="0123456789abcdef",
    surface="stdio",
    agent="agent",
    session="s1",
    tool="Read",
    kind="read",
    target="/ws/ä\x1b[31m.txt",
    decision="allow",
    reason="inside the workspace",
    outcome=CallOutcome.OK,
    code=0,
    milliseconds=1.5,
)
APPENDER = """
import sys
from toolyard.core.events import Event, CallOutcome
from toolyard.storage.audit_log import AuditLog
state, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with AuditLog.open(state) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        log.append(Event(str(number), "test", name, "", "T", "read", "x" * 300, "allow", "", CallOutcome.OK, 0, 0.0))
"""


def start_appender(state: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPENDER, state, name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def state(tmp_path) -> str:
    return str(tmp_path / "home" / "ws-1")


def filled(state: str, count: int) -> None:
    with AuditLog.open(state) as log:
        for number in range(count):
            log.append(replace(EVENT, call=str(number)))


def log_path(state: str) -> str:
    return os.path.join(state, "audit.jsonl")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_a_line_holds_the_whole_event_and_is_chained_to_the_line_before(state):
    with AuditLog.open(state) as log:
        assert [log.append(EVENT), log.append(EVENT)] == [1, 2]
    first, second = (json.loads(line) for line in content(log_path(state)).splitlines())
    times = first.pop("time"), second.pop("time")
    hashes = first.pop("hash"), second.pop("hash")
    assert first == {"v": 1, "seq": 1, **asdict(EVENT), "prev": GENESIS}
    assert second == {"v": 1, "seq": 2, **asdict(EVENT), "prev": hashes[0]}
    assert all(len(time) == len("2026-01-01T00:00:00.000Z") and time.endswith("Z") for time in times)


def test_the_hash_is_over_prev_and_the_line_without_its_hash(state):
    filled(state, 2)
    line = content(log_path(state)).splitlines()[1]
    stated = json.loads(line)
    body = line.replace(f',"hash":"{stated["hash"]}"'.encode(), b"")
    assert stated["hash"] == digest(stated["prev"].encode() + body)


def test_a_line_is_ascii_so_that_no_escape_sequence_reaches_a_terminal_from_the_file(state):
    filled(state, 1)
    assert all(byte >= 0x20 for byte in content(log_path(state)).rstrip(b"\n"))
    assert content(log_path(state)).isascii()


def test_the_head_names_the_newest_line_and_never_changes_size(state):
    sizes = set()
    with AuditLog.open(state) as log:
        for _ in range(12):
            log.append(EVENT)
            sizes.add(os.path.getsize(os.path.join(state, "audit.head")))
    raw = content(log_path(state))
    newest = json.loads(raw.splitlines()[-1])
    assert content(os.path.join(state, "audit.head")) == Head(12, len(raw), newest["hash"]).to_bytes()
    assert len(sizes) == 1


def test_the_folder_and_the_files_are_private(state):
    os.makedirs(state, mode=0o755)
    filled(state, 1)
    modes = {
        name: stat.S_IMODE(os.stat(os.path.join(state, name)).st_mode) for name in ("", "audit.jsonl", "audit.head")
    }
    assert modes == {"": 0o700, "audit.jsonl": 0o600, "audit.head": 0o600}


def test_what_was_written_is_read_back_whole(state):
    odd = replace(EVENT, target='"\\\n\x00\x7f\ud800😀', reason="", outcome=CallOutcome.DENIED, code=-32001)
    with AuditLog.open(state) as log:
        log.append(EVENT)
        log.append(odd)
    assert [record.event for record in read(state)] == [EVENT, odd]
    assert verify(state) == Verification(True, 2, (), ())


def test_long_fields_are_cut_and_the_longest_line_fits_the_limit(state):
    long = "😀" * (MAX_TARGET_CHARS + 1)
    event = Event(long, long, long, long, long, long, long, long, long, CallOutcome.OK, -(2**63), 1e300)
    with AuditLog.open(state) as log:
        log.append(event)
    assert len(content(log_path(state))) < LINE_BYTES
    assert next(read(state)).event.target == "😀" * (MAX_TARGET_CHARS - 1) + "…"
    assert verify(state).ok


def test_a_duration_that_is_no_number_is_written_as_zero(state):
    with AuditLog.open(state) as log:
        log.append(replace(EVENT, milliseconds=float("nan")))
    assert [record.event for record in read(state)] == [replace(EVENT, milliseconds=0.0)]


def test_opening_again_goes_on_with_the_chain(state):
    filled(state, 3)
    filled(state, 2)
    assert [record.seq for record in read(state)] == [1, 2, 3, 4, 5]
    assert verify(state) == Verification(True, 5, (), ())


def test_a_closed_log_says_so(state):
    log = AuditLog.open(state)
    log.close()
    log.close()
    with pytest.raises(SystemFault, match="closed"):
        log.append(EVENT)


def test_two_processes_appending_at_once_lose_nothing(state):
    writers = [start_appender(state, name, 500) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    written = [(record.event.agent, int(record.event.call)) for record in read(state)]
    assert sorted(written) == [(name, number) for name in ("a", "b") for number in range(500)]
    assert verify(state) == Verification(True, 1000, (), ())


def test_threads_may_share_one_log(state):
    with AuditLog.open(state) as log:
        threads = [threading.Thread(target=lambda: [log.append(EVENT) for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert verify(state) == Verification(True, 400, (), ())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_log_that_was_open_during_a_fork_serves_parent_and_child(state):
    with AuditLog.open(state) as log:
        log.append(EVENT)
        child = os.fork()
        if child == 0:
            failed = True
            try:
                for _ in range(50):
                    log.append(EVENT)
                failed = False
            finally:
                os._exit(failed)  # the child must not go on with the tests
        for _ in range(50):
            log.append(EVENT)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert verify(state) == Verification(True, 101, (), ())


def test_writers_killed_at_random_moments_leave_a_log_that_verifies(state):
    moments = random.Random(7)
    for kill in range(30):
        writer = start_appender(state, str(kill), 1_000_000)
        writer.stdout.readline()
        before = os.path.getsize(log_path(state))
        writer.stdin.write("\n")
        writer.stdin.flush()
        grown = before + moments.randrange(1, 60_000)
        while os.path.getsize(log_path(state)) < grown:
            assert writer.poll() is None
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert verify(state).problems == ()
    filled(state, 1)
    numbers = [record.seq for record in read(state)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert verify(state).problems == ()


def test_a_full_disk_is_an_error_and_leaves_no_partial_line(state):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with AuditLog.open(state) as log:
        log.append(EVENT)
        before = content(log_path(state))
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
        try:
            with pytest.raises(SystemFault, match=r"could not be written.*free disk space"):
                log.append(EVENT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert content(log_path(state)) == before
        assert log.append(EVENT) == 2
    assert verify(state) == Verification(True, 2, (), ())


def test_a_head_that_cannot_be_written_takes_the_line_back(state, monkeypatch):
    with AuditLog.open(state) as log:
        log.append(EVENT)
        before = content(log_path(state))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", lambda *_: 0)
            with pytest.raises(SystemFault, match="could not be written"):
                log.append(EVENT)
        assert content(log_path(state)) == before
        assert log.append(EVENT) == 2
    assert verify(state) == Verification(True, 2, (), ())


def test_a_writer_whose_log_was_moved_away_writes_to_the_one_that_bears_the_name(state):
    with AuditLog.open(state) as log:
        log.append(EVENT)
        os.rename(log_path(state), log_path(state) + ".old")
        log.append(EVENT)
    assert [(record.seq, record.mark) for record in read(state)] == [(2, "cut"), (3, "")]
    assert not verify(state).ok


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.head"])
def test_a_link_or_a_pipe_in_place_of_a_file_is_refused(state, tmp_path, name):
    os.makedirs(state)
    os.mkfifo(os.path.join(state, name))
    with pytest.raises(SecurityError, match="not a plain file"):
        AuditLog.open(state)
    os.remove(os.path.join(state, name))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    os.symlink(elsewhere, os.path.join(state, name))
    with pytest.raises((SystemFault, SecurityError)):
        AuditLog.open(state)
    assert elsewhere.read_text() == "mine"


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemFault, match="--state DIR"):
        AuditLog.open(str(tmp_path / "file" / "ws"))


def test_files_replaced_within_one_tick_of_the_clock_are_noticed(state):
    with AuditLog.open(state) as log:
        ahead = 2**62  # a folder that "changed just now", however slow this test is
        os.utime(state, ns=(ahead, ahead))
        log.append(EVENT)
        os.rename(log_path(state), log_path(state) + ".old")
        os.utime(state, ns=(ahead, ahead))
        log.append(EVENT)
    assert [(record.seq, record.mark) for record in read(state)] == [(2, "cut"), (3, "")]


def test_a_removed_state_folder_is_made_anew(state):
    with AuditLog.open(state) as log:
        log.append(EVENT)
        shutil.rmtree(state)
        assert log.append(EVENT) == 1
    assert verify(state) == Verification(True, 1, (), ())


def test_a_lock_that_is_never_freed_is_an_error_and_not_a_hang(state, monkeypatch):
    with AuditLog.open(state) as log, open(os.path.join(state, "audit.head"), "rb") as stuck:
        fcntl.flock(stuck, fcntl.LOCK_EX)
        monkeypatch.setattr(audit_files, "DEFAULT_LIMITS", Limits(lock_seconds=0.01))
        with pytest.raises(SystemFault, match="Another process has held the audit log"):
            log.append(EVENT)
        with pytest.raises(SystemFault, match="Another process has held the audit log"):
            verify(state)
        fcntl.flock(stuck, fcntl.LOCK_UN)
        assert log.append(EVENT) == 1

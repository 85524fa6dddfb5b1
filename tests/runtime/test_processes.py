"""Which processes can do nothing until they are given something."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sandbox_suite.kit import within
from toolyard_runtime import processes

_SOON = 30.0

_TELL_AND_WAIT = "; import sys; print('up', flush=True); sys.stdin.read()"
_BUSY = {
    "a thread": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a child": "import subprocess; subprocess.Popen(['cat'], stdin=subprocess.PIPE)",
    "a handler": "import signal; signal.signal(signal.SIGALRM, print); signal.alarm(60)",
}


@pytest.fixture
def waiting():
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> int:
        line = [sys.executable, "-c", code + _TELL_AND_WAIT]
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert within(_SOON, lambda: "State:\tS" in Path(f"/proc/{process.pid}/status").read_text())
        return process.pid

    yield start
    for process in started:
        process.communicate()


def test_a_process_that_only_waits_is_quiet(waiting):
    assert processes.is_idle(waiting("pass"))


@pytest.mark.parametrize("code", _BUSY.values(), ids=list(_BUSY))
def test_a_process_with_something_that_could_act_is_not_quiet(waiting, code):
    assert not processes.is_idle(waiting(code))


def test_who_runs_is_not_quiet():
    busy = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    )
    try:
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"up\n"
        assert within(_SOON, lambda: "State:\tR" in Path(f"/proc/{busy.pid}/status").read_text())
        assert not processes.is_idle(busy.pid)
    finally:
        busy.kill()
        busy.communicate()


def test_who_is_gone_is_not_quiet():
    assert not processes.is_idle(0)

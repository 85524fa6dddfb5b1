"""The host's end of a warden, and what it makes of wardens that are not well."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tests.support.sandbox_suite.kit import within
from toolyard.sandbox import guest_layout
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.process.client import NotStarted, SandboxProcess, SocketChannel
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, SandboxSpec

UNABLE = (
    "from toolyard_runtime import supervisor; "
    "supervisor.Supervisor._new_worker = lambda self, kind: None; supervisor.main()"
)
WELL = "from toolyard_runtime import supervisor; supervisor.main()"
LONGEST_WAIT = 30.0


@pytest.fixture
def open_box(tmp_path):
    boxes = []

    def open_box(code=WELL):
        ours, theirs = socket.socketpair()
        with theirs:
            line = (sys.executable, "-c", code, str(theirs.fileno()), str(theirs.fileno()))
            found = {"PYTHONPATH": os.path.dirname(guest_layout.runtime_folder())}
            with open(__file__, "rb") as own:
                process = subprocess.Popen(
                    line, stdin=own, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, env=found
                )
        setup = guest_layout.run_setup(SandboxSpec(workspace=str(tmp_path)), "/usr/bin")
        box = SandboxProcess(process, SocketChannel(ours), setup)
        boxes.append(box)
        walls = Restrictions(b"", (), b"").setup_fields(pid_max=0, in_worker=False)
        box.set_up({**walls, "shown": [], "hidden": [], "forward": "", "forward_port": 0})
        return box

    yield open_box
    for box in boxes:
        box.close()


def test_a_warden_that_can_start_nothing_says_so_and_makes_way_for_another(open_box):
    box, printed = open_box(UNABLE), []
    request = RunRequest(RunKind.COMMAND, "echo here", LONGEST_WAIT)
    outcome = box.run(request, lambda stream, data: printed.append(data), threading.Event())
    assert (outcome.ending, outcome.exit_code) == (RunEnding.FINISHED, 1)
    assert b"".join(printed) == b"No process could be started: the sandbox is full.\n"
    box.process.wait(LONGEST_WAIT)
    box._reader.join(LONGEST_WAIT)
    assert not box.is_up


LATE = """
import os, threading, time
def late():
    while not os.path.exists('go'): time.sleep(0.005)
    os.write(1, b'between'); os.write(2, b'between')
    open('said', 'w').close()
threading.Thread(target=late).start()
"""


def test_what_a_session_prints_between_runs_belongs_to_none(open_box, tmp_path, monkeypatch):
    """Even when the warden finds it together with the next request."""
    box, printed, sent = open_box(), [], threading.Event()
    send = box._channel.send

    def run(code):
        request = RunRequest(RunKind.PYTHON, code, LONGEST_WAIT, session="a")
        return box.run(request, lambda stream, data: printed.append(data), threading.Event())

    run(LATE)
    os.kill(box.process.pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    assert within(LONGEST_WAIT, (tmp_path / "said").exists)
    monkeypatch.setattr(box._channel, "send", lambda data: (send(data), sent.set()))
    thread = threading.Thread(target=run, args=("print('its own')",))
    thread.start()
    assert sent.wait(LONGEST_WAIT)
    os.kill(box.process.pid, signal.SIGCONT)
    thread.join(LONGEST_WAIT)
    assert b"".join(printed) == b"its own\n"


@pytest.mark.parametrize(
    "wanted", [(RunKind.PYTHON, "import os; os.write(1, os.read(0, 9))"), (RunKind.COMMAND, "cat")]
)
def test_a_run_reads_nothing_of_what_its_warden_could(open_box, wanted):
    """In a container that is the line to the host."""
    printed = []
    outcome = open_box().run(
        RunRequest(*wanted, LONGEST_WAIT), lambda stream, data: printed.append(data), threading.Event()
    )
    assert (outcome.exit_code, printed) == (0, [])


ORPHANS_WITHOUT_END = """
import os
from toolyard_runtime import supervisor
def reap(pid, options, reap=os.waitpid):
    found = reap(pid, options)
    return (1 << 30, 0) if (pid, found[0]) == (-1, 0) else found
os.waitpid = reap
supervisor.main()
"""


def test_the_host_is_heard_while_orphans_come_faster_than_they_can_be_reaped(open_box):
    box = open_box(ORPHANS_WITHOUT_END)
    outcome = box.run(
        RunRequest(RunKind.COMMAND, "(true &); sleep 60", 0.5), lambda stream, data: None, threading.Event()
    )
    assert outcome.ending is RunEnding.TIMEOUT


@pytest.mark.parametrize("noticed", [False, True])
def test_what_does_not_reach_a_warden_that_is_gone_may_be_run_elsewhere(open_box, noticed):
    box = open_box()
    box.process.kill()
    box.process.wait(LONGEST_WAIT)
    if noticed:
        box._reader.join(LONGEST_WAIT)
    else:
        box._disconnected.clear()
    with pytest.raises(NotStarted):
        box.run(RunRequest(RunKind.COMMAND, "true", LONGEST_WAIT), lambda stream, data: None, threading.Event())
    assert not box.is_up

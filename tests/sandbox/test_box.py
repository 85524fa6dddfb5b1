"""The host's end of a warden, and what it makes of wardens that are not well."""

import socket
import subprocess
import sys
import threading

import pytest

from toolyard.sandbox import inside
from toolyard.sandbox.box import Box
from toolyard.sandbox.inside import Walls
from toolyard.sandbox.line import SocketLine
from toolyard.sandbox.spec import Ending, Request, Spec, What

UNABLE = "from toolyard_runtime import warden; warden.Warden._made = lambda self, kind: None; warden.main()"
WELL = "from toolyard_runtime import warden; warden.main()"
LONGEST_WAIT = 30.0


@pytest.fixture
def open_box(tmp_path):
    boxes = []

    def open_box(code=WELL):
        ours, theirs = socket.socketpair()
        with theirs:
            line = (sys.executable, "-c", code, str(theirs.fileno()), str(theirs.fileno()))
            process = subprocess.Popen(line, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, env={})
        setup = inside.run_setup(Spec(workspace=str(tmp_path)), "/usr/bin")
        box = Box(process, SocketLine(ours), setup)
        boxes.append(box)
        walls = Walls(b"", (), b"").worded(pid_max=0, in_worker=False)
        box.set_up({**walls, "shown": [], "hidden": [], "forward": "", "forward_port": 0})
        return box

    yield open_box
    for box in boxes:
        box.close()


def test_a_warden_that_can_start_nothing_says_so_and_makes_way_for_another(open_box):
    box, printed = open_box(UNABLE), []
    request = Request(What.COMMAND, "echo here", LONGEST_WAIT)
    outcome = box.run(request, lambda stream, data: printed.append(data), threading.Event())
    assert (outcome.ending, outcome.exit_code) == (Ending.FINISHED, 1)
    assert b"".join(printed) == b"No process could be started: the sandbox is full.\n"
    box.process.wait(LONGEST_WAIT)
    box._reader.join(LONGEST_WAIT)
    assert not box.is_up

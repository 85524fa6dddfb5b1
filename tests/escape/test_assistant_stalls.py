"""Files and traces made to keep the assistant busy: others are answered meanwhile, and who leaves has left."""

import time

import pytest

from tests.support.assistant_process import Assisted, assisted
from toolyard.testing.mock_model import Say

pytestmark = pytest.mark.slow  # a start of a server for each

WAITS = 3.0
"""Seconds, on a machine that has other work: it was half a minute."""
REST_SECONDS = 2.0


@pytest.fixture
def served(tmp_path):
    for folder in ("project", "home"):
        (tmp_path / folder).mkdir()
    with assisted(str(tmp_path / "project"), Say("fine"), home=str(tmp_path / "home")) as opened:
        opened.ask("chat", prompt="hello")  # all that is loaded once is loaded
        yield opened


def longest_wait(served: Assisted, call: int, *, leaves_after: float | None = None) -> float:
    """Of pings, until the call is answered or was left."""
    began, longest = time.monotonic(), 0.0
    while True:
        sent = time.monotonic()
        ping = served.send_request("ping", {})
        while (message := served.receive()).get("id") != ping:
            if message.get("id") == call:
                return max(longest, time.monotonic() - sent)
        longest = max(longest, time.monotonic() - sent)
        if leaves_after is not None and time.monotonic() - began > leaves_after:
            served.notify("notifications/cancelled", {"requestId": call})
            return longest
        time.sleep(0.02)


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_blanks_in_a_file_hold_nobody_up(served, tmp_path):
    folder = tmp_path / "project" / "d"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.rs").write_text(("use a::{\n" + (" " * 999 + "\n") * 60 + ";\n") * 4)
        (folder / f"{number}.py").write_text(("from " + "." * 994 + "\n") * 250)
        (folder / f"{number}.php").write_text(("require" + " " * 992 + "\n") * 250)
        (folder / f"{number}.rb").write_text(("require" + " " * 992 + "\n") * 250)
    call = served.post_call("analyze", files=["d"], question="What is it?")
    assert longest_wait(served, call) < WAITS


def test_a_trace_of_thousands_of_frames_is_given_up_with_its_call(served, tmp_path):
    for number in range(4_000):
        folder = tmp_path / "project" / f"{number:04}"
        folder.mkdir()
        (folder / "x.py").write_text("1\n")
    trace = "Traceback (most recent call last):\n"
    text = "".join(
        trace + "".join(f'  File "/s/{one}/{other}/x.py", line 1, in f\n' for other in range(200)) + "E: x\n"
        for one in range(100)
    )
    call = served.post_call("debug", error_description=text)
    assert longest_wait(served, call, leaves_after=1.0) < WAITS
    time.sleep(REST_SECONDS)  # what it does is over by then, or never
    before = processor_seconds(served.process.pid)
    time.sleep(REST_SECONDS)
    assert processor_seconds(served.process.pid) - before < REST_SECONDS / 2

"""`toolyard drive` killed at once, in the middle of a call: nothing of the run is left, nor of what it called."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time

import pytest

from tests.cli.test_drive import Driving, until

SECONDS = 100
SOON = 2.0 + 8.0
"""Everything is gone within 2 s; a busy machine may take longer."""
SLEEP = f"86398.{os.getpid()}"
"""Of this process alone: others run the same test at the same time."""


def sleeping() -> list[str]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"sleep") and SLEEP.encode() in words:
                found.append(pid)
    return found


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("mode", ["strict", "bypassPermissions"])
@pytest.mark.parametrize("in_background", [False, True])
def test_killed_in_the_middle_of_a_command_it_leaves_nothing(tmp_path, mode, in_background):
    """Of a command in the background the CLI does not wait for the end: it does not notice that we are gone."""
    driving = Driving(tmp_path)
    command = f"touch started; setsid sleep {SLEEP} & sleep {SLEEP}"
    call = ["call", "Bash", {"command": command, "run_in_background": in_background}]
    try:
        steps = (["child"], call, ["touch", str(tmp_path / "called")], ["pause", 1000])
        process = driving.start(*steps, json=True, permission_mode=mode)
        until(tmp_path / "called" if in_background else driving.workspace / "started")
        limit = time.monotonic() + SECONDS
        while not sleeping():
            assert time.monotonic() < limit, "the command never ran"
            time.sleep(0.01)
        assert driving.leftovers()
        process.send_signal(signal.SIGKILL)
        struck = time.monotonic()
        process.wait()
        while (left := [*driving.leftovers(), *sleeping()]) and time.monotonic() < struck + SOON:
            time.sleep(0.02)
        assert left == []
    finally:
        driving.end()

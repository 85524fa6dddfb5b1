"""The place for destructive tests: everything but its own /tmp is read-only, and it is not taken on trust."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support import private_mounts

SECONDS = 30


PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def run(*program, **options):
    ran = subprocess.run(
        private_mounts.command(program), capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )
    if ran.returncode == private_mounts.UNAVAILABLE_EXIT:
        pytest.skip(ran.stderr)
    return ran


# Asked of the kernel, and not of the code that is tested here.
@pytest.mark.skipif(
    bool(os.statvfs(os.getcwd()).f_flag & os.ST_RDONLY), reason="these tests run in such a place themselves"
)
def test_elsewhere_destructive_tests_are_refused():
    assert not private_mounts.are_private()
    with pytest.raises(private_mounts.NotPrivateError, match="run only in a private mount namespace"):
        private_mounts.require()


def test_nothing_but_its_own_temp_folder_can_be_written(tmp_path):
    places = ["/", "/usr", "/etc", "/dev", os.path.expanduser("~"), os.path.dirname(__file__), os.getcwd()]
    tried = "; ".join(f"touch {place}/made-by-a-test 2>/dev/null && echo {place}" for place in places)
    ran = run("bash", "-c", f"{tried}; touch /tmp/made && ls -d {tmp_path}; echo $HOME $XDG_STATE_HOME $TMPDIR")
    assert ran.stdout == "/tmp/home /tmp/state /tmp\n"
    assert not os.path.exists("/tmp/made")


@pytest.mark.skipif(PROJECT.startswith("/tmp/"), reason="a checkout in /tmp is covered by the private /tmp")
def test_a_program_in_there_is_allowed_to_destroy():
    code = f"import sys; sys.path.insert(0, {PROJECT!r})\nfrom tests.support import private_mounts\n"
    code += "private_mounts.require(); print('allowed')"
    ran = run(sys.executable, "-c", code)
    assert (ran.returncode, ran.stdout) == (0, "allowed\n"), ran.stderr


def test_the_exit_code_is_the_programs():
    assert run("bash", "-c", "exit 7").returncode == 7
    assert run("bash", "-c", "kill -9 $$").returncode == 137


def test_what_a_program_leaves_running_ends_with_it():
    run("bash", "-c", "setsid sleep 54321 & disown")
    assert not running("54321")


def test_killing_the_runner_ends_all_in_there():
    runner = subprocess.Popen(
        private_mounts.command(["bash", "-c", "echo started; sleep 65432 & wait"]), stdout=subprocess.PIPE, text=True
    )
    with runner:
        if runner.stdout.readline() != "started\n":
            pytest.skip("no such place can be made here")
        runner.send_signal(signal.SIGKILL)
    until = time.monotonic() + SECONDS
    while running("65432") and time.monotonic() < until:
        time.sleep(0.01)
    assert not running("65432")


def running(word):
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and word.encode() in words:
            return True
    return False

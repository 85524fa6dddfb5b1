"""What the docker tests stand on: the engine's promises, and those of a container driven over its input."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from .engine import POLL_SECONDS, REPOSITORY, Engine, is_alive, why_not

GONE_SECONDS = 1.0
ENGINE_GONE_SECONDS = 10.0

# The first process answers on its output and ends with its input. Beside it, a daemon that left its session, ignores
# signals and floods the output.
FIRST_PROCESS = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    while True:
        try:
            os.write(1, b"y" * 65536)
        except OSError:
            pass
while os.read(0, 65536):
    os.write(1, b"x")
"""
DRIVER = """
import subprocess, sys
started = subprocess.Popen(["docker", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
started.stdin.write(b"x")
started.stdin.flush()
while b"x" not in started.stdout.read1():
    pass
print(started.pid, flush=True)
sys.stdin.read()
"""
OWNER = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import tests.docker.engine as engines
engines.CACHE = pathlib.Path(sys.argv[2])
with engines.running() as engine:
    print(engine.process.pid, *engine.processes(), flush=True)
    sys.stdin.read()
"""


def left_after(pids, seconds):
    give_up = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS / 10)
    return left


@pytest.fixture
def container(engine, image, request):
    """Arguments that run the flooding container, and its name."""
    name = f"flood-{os.getpid()}-{abs(hash(request.node.name))}"
    arguments = ["run", "--rm", "--interactive", "--name", name, "--network", "none", "--log-driver", "none"]
    yield name, [*arguments, "--entrypoint", "python3", image, "-I", "-S", "-c", FIRST_PROCESS]
    engine.docker("rm", "--force", name, check=False)


def test_a_container_ends_within_a_second_when_its_client_is_killed(engine, container):
    name, arguments = container
    client = engine.start(*arguments)
    try:
        client.stdin.write(b"x")
        while b"x" not in client.stdout.read(65536):
            pass
        processes = engine.processes_of(name)

        client.kill()

        assert len(processes) >= 2
        assert left_after(processes, GONE_SECONDS) == []
    finally:
        client.kill()
        client.wait()
        client.stdin.close()
        client.stdout.close()


def test_a_container_ends_within_a_second_when_the_process_that_drives_its_client_is_killed(engine, container):
    name, arguments = container
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        env=engine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as driver:
        client = int(driver.stdout.readline())
        processes = [client, *engine.processes_of(name)]

        driver.kill()

        assert left_after(processes, GONE_SECONDS) == []


def test_the_engine_mounts_nothing_that_is_seen_outside(engine: Engine):
    with open("/proc/self/mountinfo") as mounts:
        assert str(engine.folder) not in mounts.read()


@pytest.mark.parametrize("ending", ["left", "killed"])
def test_an_engine_leaves_no_process_whatever_ends_it(ending):
    if reason := why_not():
        pytest.skip(reason)
    # Not tmp_path: a socket's path has to be short.
    with (
        tempfile.TemporaryDirectory(prefix="yard-") as folder,
        subprocess.Popen(
            [sys.executable, "-c", OWNER, str(REPOSITORY), folder],
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as owner,
    ):
        processes = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(processes) > 1

        if ending == "killed":
            owner.kill()
        else:
            owner.stdin.close()

        assert left_after(processes, ENGINE_GONE_SECONDS) == []

"""What the system tells of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benchmarks.processes import processor_seconds

WORKS_WHEN_ASKED = """
import sys, threading, time

def work(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

for line in sys.stdin:
    thread = threading.Thread(target=work, args=(float(line),))
    thread.start()
    thread.join()
    print("done", flush=True)
"""


@pytest.fixture
def worker():
    command = [sys.executable, "-c", WORKS_WHEN_ASKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def work(seconds):
            before = processor_seconds(process.pid)
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            return processor_seconds(process.pid) - before

        yield work


def test_less_work_than_a_tick_of_the_system_is_counted(worker):
    assert 0.002 <= worker(0.002) < 0.2


def test_the_work_of_threads_that_ended_is_counted(worker):
    assert 0.1 <= worker(0.1) < 0.4


def test_waiting_is_no_work():
    before = processor_seconds(os.getpid())
    time.sleep(0.2)
    assert processor_seconds(os.getpid()) - before < 0.15


def test_a_process_that_is_gone_cannot_be_asked():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(OSError):
        processor_seconds(process.pid)

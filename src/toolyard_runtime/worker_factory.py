"""Starts workers: the processes that wait for runs and execute them."""

from __future__ import annotations

import os

from toolyard_runtime import limits, scheduling, shell, worker
from toolyard_runtime.pipes import open_worker_pipes
from toolyard_runtime.run_state import WorkerRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard_runtime.messages import Setup

PYTHON, COMMAND = "python", "command"
"""What a worker is for: any request, or a command for a waiting shell."""


def start_worker(kind: str, setup: Setup, *, is_alone: Callable[[], bool]) -> WorkerRun | None:
    """Starts a worker of this kind that waits for its request; returns None if no process can be started.

    `is_alone` returns whether no run is active. Then a shell is started in the fastest way, which suspends this
    process until its child has become bash: an active run that stopped the child before that would stop both.
    """
    try:
        is_plain = kind == PYTHON and "recording" not in setup  # only a socket can send a listener back
        ours, theirs = open_worker_pipes() if is_plain else shell.open_pipes_with_socket()
    except OSError:
        return None
    try:
        if kind == PYTHON:
            pid = _fork_in_background(theirs, setup)
        elif is_alone():
            line = limits.ulimit_command(setup["limits"])
            pid = shell.spawn_waiting_shell(setup["shell"], setup["environment"], theirs, line)
        else:
            pid = _fork_worker(worker.run_waiting_shell, theirs, setup)
    except OSError:
        for fd in (*ours, *theirs):
            os.close(fd)
        return None
    for fd in theirs:
        os.close(fd)
    return WorkerRun(pid, ours, is_shell=kind == COMMAND)


def _fork_in_background(theirs: list[int], setup: Setup) -> int:
    scheduling.set_background_slice()  # the worker is not urgent; active runs are
    try:
        return _fork_worker(worker.main, theirs, setup)
    finally:
        scheduling.set_default_slice()


def _fork_worker(begin: Callable[..., None], theirs: list[int], setup: Setup) -> int:
    pid = os.fork()
    if pid == 0:
        begin(*theirs, setup=setup)
    return pid

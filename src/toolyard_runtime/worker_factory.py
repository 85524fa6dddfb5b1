"""Making workers: the processes that runs take place in, and that wait for them."""

from __future__ import annotations

import os

from toolyard_runtime import limits, scheduling, shell, worker
from toolyard_runtime.pipes import pipes
from toolyard_runtime.run_state import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard_runtime.messages import Setup

PYTHON, COMMAND = "python", "command"
"""What a worker is for: anything, or a command that a shell waits for."""


def worker_for(kind: str, setup: Setup, *, is_alone: Callable[[], bool]) -> Run | None:
    """A worker of this kind that waits for its request; None where no process can be started.

    `is_alone` tells whether nothing of a run is at work. Then a shell is started the quickest way, in which this
    process stands still until its child has become bash: a run that stopped the child before that would stop both.
    """
    try:
        is_plain = kind == PYTHON and "recording" not in setup  # only a socket can carry a listener back
        ours, theirs = pipes() if is_plain else shell.ends()
    except OSError:
        return None
    try:
        if kind == PYTHON:
            pid = _forked_unhurried(theirs, setup)
        elif is_alone():
            line = limits.in_shell(setup["limits"])
            pid = shell.wait_ahead(setup["shell"], setup["environment"], theirs, line)
        else:
            pid = _forked(worker.wait_in_shell, theirs, setup)
    except OSError:
        for fd in (*ours, *theirs):
            os.close(fd)
        return None
    for fd in theirs:
        os.close(fd)
    return Run(pid, ours, is_shell=kind == COMMAND)


def _forked_unhurried(theirs: list[int], setup: Setup) -> int:
    scheduling.unhurried()  # the worker has time; whoever runs now has not
    try:
        return _forked(worker.main, theirs, setup)
    finally:
        scheduling.usual()


def _forked(begin: Callable[..., None], theirs: list[int], setup: Setup) -> int:
    pid = os.fork()
    if pid == 0:
        begin(*theirs, setup=setup)
    return pid

"""The four pipes between the supervisor and a worker."""

from __future__ import annotations

import os


def open_worker_pipes() -> tuple[list[int], list[int]]:
    """Returns the supervisor's ends and the worker's, each in the order requests, reply, out, err."""
    ours: list[int] = []
    theirs: list[int] = []
    for end in range(4):
        reader, writer = os.pipe2(os.O_CLOEXEC)
        ours.append(writer if end == 0 else reader)
        theirs.append(reader if end == 0 else writer)
    os.set_blocking(ours[0], False)
    return ours, theirs

"""The quickest way up: a first worker is forked before the warden imports anything, and both go on side by side.

The worker imports what Python code needs while the warden gets ready; then it is told the set-up, raises the same
walls, and says so. Nothing of the agent's runs before the walls of both stand.
"""

from __future__ import annotations

import os

from toolyard_runtime.pipes import open_worker_pipes


def main() -> None:
    ours, theirs = open_worker_pipes()
    pid = os.fork()
    if pid == 0:
        from toolyard_runtime import worker

        worker.run_first_worker(*theirs)
    for fd in theirs:
        os.close(fd)
    from toolyard_runtime import supervisor

    supervisor.main(first=(pid, ours))

"""The fastest start: forks a first worker before the supervisor imports anything, so that both start in parallel.

The worker imports what Python code needs while the supervisor prepares. Then it receives the setup, applies the same
restrictions and confirms that. No agent code runs before both are restricted.
"""

from __future__ import annotations

import os

from toolyard_runtime.pipes import open_worker_pipes


def main() -> None:
    """Forks the first worker and becomes the supervisor."""
    ours, theirs = open_worker_pipes()
    pid = os.fork()
    if pid == 0:
        from toolyard_runtime import worker

        worker.run_first_worker(*theirs)
    for fd in theirs:
        os.close(fd)
    from toolyard_runtime import supervisor

    supervisor.main(first=(pid, ours))

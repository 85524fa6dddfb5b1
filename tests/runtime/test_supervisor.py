"""The warden by itself, in a process of its own: it has signal handlers."""

import subprocess
import sys

DEADLINE = 50
MANY = 100
ROOM = f"""
import os
from toolyard_runtime import supervisor

supervisor._REAPING_SECONDS = 0.00002  # as if the machine were so busy that a turn of it is soon over
one = supervisor.Supervisor(*os.pipe())
seen = []
one._new_worker = lambda kind: seen.append(len(one._leftover_children()))  # no process can be started
for _ in range({MANY}):
    if os.fork() == 0:
        os._exit(0)
one._worker_for({{"what": "command", "folder": "/", "code": "true", "session": "", "output_bytes": 1}})
print(*seen)
"""


def test_before_a_run_is_refused_for_want_of_room_all_the_dead_are_buried():
    done = subprocess.run([sys.executable, "-c", ROOM], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout == f"{MANY} 0\n"

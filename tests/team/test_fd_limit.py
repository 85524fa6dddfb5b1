"""How many files a team may hold open."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource, sys
from toolyard.core.errors import SystemFault
from toolyard.team.fd_limit import raise_fd_limit
soft, hard, agents = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    raise_fd_limit(agents)
except SystemFault as fault:
    print(fault)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limits_after(soft: int, hard: int, agents: int) -> str:
    arguments = (sys.executable, "-c", SCRIPT, str(soft), str(hard), str(agents))
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def test_a_large_team_is_given_more_than_a_process_has_by_itself():
    assert limits_after(1024, 8192, 100) == "3456 8192\n"


def test_a_small_team_changes_nothing():
    assert limits_after(1024, 8192, 3) == "1024 8192\n"


def test_a_team_that_the_system_has_no_room_for_is_told_so_before_it_begins():
    said = limits_after(256, 512, 100)
    assert "100 agents need 3,456 open files, but this process is limited to 512." in said
    assert said.endswith("256 512\n")

"""A writer killed at any moment leaves one whole version of the file: the old one or the new one, never a mixture.

A helper process is started once; for each kill it forks a child that rewrites and edits one file over and over,
lets it write up to two versions and run on for a random moment, and kills it with SIGKILL. The file on the disk is
checked here.
"""

import hashlib
import os
import random
import subprocess
import sys

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call

KILLS = 500
KILLS_WITH_NAMED_FILES = 60
LONGEST_MOMENT = 0.03
NAME = "file.txt"

HELPER = """
import errno, hashlib, mmap, os, random, signal, sys, time
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files import file_io
from toolyard.files.mounts import Mounts

workspace, kind = sys.argv[1:]
if kind == "named":
    real_open = os.open
    def without_unnamed_files(path, flags, *more, **others):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not on this file system")
        return real_open(path, flags, *more, **others)
    os.open = without_unnamed_files
mounts = Mounts(workspace)
written = mmap.mmap(-1, 1)  # shared with the child: how many versions it wrote, up to two

def version(dice):
    body = dice.randbytes(64) * dice.randrange(1, 20_000)
    return f"{len(body)} {hashlib.sha256(body).hexdigest()}\\n".encode() + body

def write_for_ever(seed):
    dice = random.Random(seed)
    while True:
        with mounts.find(mounts.clean("file.txt")) as target:
            if dice.random() < 0.5:
                file_io.rewrite(target, lambda before: version(dice), DEFAULT_LIMITS)
            else:
                file_io.rewrite(target, lambda before: edited(before, dice), DEFAULT_LIMITS)
        written[0] = min(written[0] + 1, 2)

def edited(before, dice):
    head, _, body = before.data.partition(b"\\n")
    assert head == f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode(), "a torn file was read"
    body += dice.randbytes(1000)
    return f"{len(body)} {hashlib.sha256(body).hexdigest()}\\n".encode() + body

for line in sys.stdin:
    seed, moment = line.split()
    written[0] = 0
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(int(seed))
        finally:
            os._exit(9)
    # A busy machine may give the child no time within the moment: a part of them first has to write something.
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while written[0] < int(seed) % 3 and os.waitid(os.P_PID, child, ended) is None:
        time.sleep(0.0005)
    time.sleep(float(moment))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "failed", flush=True)
"""


def version(body: bytes) -> bytes:
    return f"{len(body)} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def assert_whole(path: str) -> bytes:
    with open(path, "rb") as file:
        head, _, body = file.read().partition(b"\n")
    assert head == f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode(), "torn"
    return head


def killed(workspace: str, kind: str, kills: int) -> set[bytes]:
    """Kill so many writers; the versions that were seen."""
    dice = random.Random(kills)
    seen: set[bytes] = set()
    command = [sys.executable, "-c", HELPER, workspace, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        for number in range(kills):
            helper.stdin.write(f"{number} {dice.uniform(0, LONGEST_MOMENT)}\n")
            helper.stdin.flush()
            assert helper.stdout.readline() == "killed\n"
            seen.add(assert_whole(f"{workspace}/{NAME}"))
        helper.stdin.close()
    return seen


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / NAME).write_bytes(version(b"the first version"))
    return str(folder)


@pytest.fixture
def yard(workspace, tmp_path):
    settings = Settings(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "t"), str(tmp_path / "d"))
    with Yard.open(YardOptions(workspace, Config(), settings)) as opened:
        yield opened


def leftovers(workspace: str) -> list[str]:
    return [name for name in os.listdir(workspace) if name != NAME]


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_500_killed_writers_leave_no_torn_file(workspace, yard):
    seen = killed(workspace, "unnamed", KILLS)
    assert len(seen) > KILLS // 10, "the control: writers got somewhere before they were killed"
    left = leftovers(workspace)
    assert all(name.startswith(".toolyard-tmp-") for name in left)
    assert len(left) < KILLS // 10, "few leave anything behind"
    await assert_only_the_file_is_shown(yard)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_killed_writers_leave_no_torn_file_where_unnamed_files_are_not_to_be_had(workspace, yard):
    seen = killed(workspace, "named", KILLS_WITH_NAMED_FILES)
    assert len(seen) > KILLS_WITH_NAMED_FILES // 10
    assert leftovers(workspace), "the control: here they do leave something"
    assert all(name.startswith(".toolyard-tmp-") for name in leftovers(workspace))
    await assert_only_the_file_is_shown(yard)


async def assert_only_the_file_is_shown(yard):
    listed = await yard.dispatch(Call("LS", {}, surface="test"))
    assert listed.structured["tree"] == NAME
    found = await yard.dispatch(Call("Glob", {"pattern": "**"}, surface="test"))
    assert found.structured["files"] == [NAME]

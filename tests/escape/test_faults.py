"""Runs that take all they can get, and sandboxes that are lost: the server answers, the next run works.

Every fault is bounded by the limits below and by a few seconds.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys

import pytest

from tests.support.attacks.control import Arena, text_of
from tests.support.attacks.scene import marked
from tests.support.sandbox_suite.kit import GONE_SECONDS, MARK, descendants_of, within
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import MIB
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.spec import RunKind
from toolyard.testing.mcp_client import ServerGone, StdioClient

pytestmark = pytest.mark.destructive

LIMITS = {
    "memory_bytes": 256 * MIB,
    "processes": 310,
    "disk_bytes": 64 * MIB,
    "file_bytes": 48 * MIB,
    "temporary_bytes": 32 * MIB,
    "output_bytes": MIB,
}
SECONDS = 10
LOST_SECONDS = 15
SETTLE_SECONDS = 0.1
WRITTEN_AT_MOST = 1024 * MIB  # the disk is looked at between ticks, on a loaded machine long ones

COMMANDS = {
    "a fork bomb": "b() { b | b & }; b; sleep 100",
    "a fork bomb that ignores signals": "trap '' TERM HUP INT; b() { (b & b &) }; b; while :; do :; done",
    "memory without end": "x=x; while :; do x=$x$x; done",
    # Forked, since to start so many interpreters takes long on a loaded machine; over once the first one was killed.
    "memory in many processes": "python3 -c 'import os\nread, write = os.pipe()\nfor _ in range(20):\n"
    ' if os.fork() == 0: os.close(write); held = b"x" * (20 << 20); os.read(read, 1); os._exit(0)\n'
    "_, status = os.wait()\nos.kill(os.getpid(), status)'",
    "a full /tmp": "dd if=/dev/zero of=/tmp/x bs=1M count=40",
    "full shared memory": "for i in {1..12}; do dd if=/dev/zero of=/dev/shm/$i bs=1M count=40; done",
    "a full home": "for i in {1..12}; do dd if=/dev/zero of=$HOME/$i bs=1M count=40; done",
    "output without end": "yes",
    "errors without end": "yes >&2",
    "a loop without end": "while :; do :; done",
    "a child that ignores SIGTERM": "sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done'",
    "daemons": "for i in 1 2 3 4 5; do (setsid sh -c 'trap \"\" TERM; sleep 400 & sleep 401' & ) ; done; sleep 100",
    "no streams": "exec <&- >&- 2>&- 3>&- 4>&-; sleep 100",
    "a file without end": "cat /dev/zero > big",
    "files without end": "i=0; while :; do head -c 8000000 /dev/zero > big$i; i=$((i + 1)); done",
    "a file without a name": "exec 5<> big; rm big; cat /dev/zero >&5",
    "killing everybody": "kill -9 -1",
    "stopping everybody": "kill -STOP -1; kill -STOP $$",
}
CODE = {
    "a fork bomb": "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
    "a bomb of sessions": "import os\nwhile True:\n try:\n  if os.fork() == 0: os.setsid()\n except OSError: pass",
    "threads without end": "import threading, time\nwhile True:\n"
    " try: threading.Thread(target=time.sleep, args=(99,)).start()\n except RuntimeError: time.sleep(0.01)",
    "memory without end": "held = []\nwhile True: held.append(bytearray(b'x') * (8 << 20))",
    "shared memory without end": "import mmap\nheld = []\nwhile True:\n"
    " held.append(mmap.mmap(-1, 8 << 20)); held[-1].write(bytes(8 << 20))",
    "files in memory without end": "import os\nwhile True:\n f = os.memfd_create('x'); os.write(f, bytes(8 << 20))",
    "its own memory": "for line in open('/proc/self/maps'):\n"
    " a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
    " with open('/proc/self/mem', 'r+b', 0) as f:\n  try: f.seek(a); f.write(bytes(min(b - a, 4096)))\n"
    "  except (OSError, OverflowError): pass",
    "a loop without end": "while True: pass",
    "a loop in C": "sum(range(10**15))",
    "no streams": "import os, time; os.closerange(0, 64); time.sleep(99)",
    "many small files": "import os\nos.mkdir('many')\n"
    "for n in range(10**7): os.close(os.open(f'many/{n}', os.O_CREAT))",
    "descriptors without end": "import os\nheld = []\nwhile True: held.append(os.dup(1))",
    "a stack without end": "import sys, threading\nthreading.stack_size(64 << 20); sys.setrecursionlimit(10**8)\n"
    "def f(): f()\nt = threading.Thread(target=f); t.start(); t.join()",
    "pipes without end": "import os\nheld = []\nwhile True:\n"
    " p = os.pipe(); os.set_blocking(p[1], False); held.append(p)\n"
    " try: os.write(p[1], bytes(1 << 16))\n except OSError: pass",
}
SECONDS_OF = {"many small files": 0.4, "memory in many processes": 4}
# What ends it is the limit that it breaks, and not the clock, which would end it all the same.
ENDED_BY = {
    **dict.fromkeys(("output without end", "errors without end"), ("output",)),
    **dict.fromkeys(("a file without end", "a file without a name", "a full /tmp"), ("finished",)),
    **dict.fromkeys(("descriptors without end", "pipes without end"), ("finished",)),
    **dict.fromkeys(("memory without end", "full shared memory", "a full home"), ("finished", "memory")),
    "files without end": ("disk",),
}
ENDED_BY_GROUP = ("memory in many processes", "shared memory without end", "files in memory without end")
HARMLESS = ("its own memory", "killing everybody", "a stack without end")  # to the run itself
FAULTS = [(RunKind.COMMAND, name, code) for name, code in COMMANDS.items()]
FAULTS += [(RunKind.PYTHON, name, code) for name, code in CODE.items()]


def below_us(arena):
    """Everything that runs because of this test, less the scene's own process."""
    return len(descendants_of(frozenset({os.getpid()}))) - 1


def most_waiting(arena):
    """How many processes an idle sandbox consists of: as many as it has once it has refilled its supply."""
    counts = []
    within(SETTLE_SECONDS, lambda: counts.append(below_us(arena)) or False)
    return max(counts)


async def works(arena, ended_by=signal.SIGKILL):
    """Within a few runs: who killed everything may have killed the processes that wait for the next one too."""
    for what, code, field, shown in (
        (RunKind.COMMAND, "echo fine", "stdout", "fine\n"),
        (RunKind.PYTHON, "1 + 1", "value", "2"),
    ):
        for _ in range(3):
            result = await arena.run(what, code, seconds=SECONDS, client="next")
            if result.structured[field] == shown:
                break
            assert (result.structured["ending"], result.structured["exit_code"]) == ("finished", 128 + ended_by)
        assert result.structured[field] == shown


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Arena(str(tmp_path_factory.mktemp("scene")), sandboxed=True, limits=LIMITS) as arena:
        yield arena


@pytest.fixture
async def unharmed(shared):
    await works(shared)
    calm = most_waiting(shared)
    yield shared
    await works(shared)
    assert within(GONE_SECONDS, lambda: below_us(shared) <= calm), below_us(shared)
    assert shared.scene.facts("") == set()
    shared.scene.tidy()


def memory_can_be_held():
    """Whether all processes of a sandbox can have one limit together: an ordinary user may lack the right."""
    group = Cgroup.create(memory_bytes=MIB, processes=1, name="probe")
    if group is not None:
        group.close()
    return group is not None and "memory" in group.enforced_limits


def size_of(folder):
    return sum(os.lstat(f"{top}/{name}").st_blocks * 512 for top, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize(("what", "name", "code"), FAULTS, ids=[f"{w}-{n}".replace(" ", "-") for w, n, _ in FAULTS])
async def test_a_fault_hurts_only_itself(unharmed, what, name, code):
    mark = f"export {MARK}={unharmed.scene.mark}; " if what is RunKind.COMMAND else ""
    expected = ENDED_BY.get(name)
    if name in ENDED_BY_GROUP and memory_can_be_held():
        expected = ("memory",)
    seconds = SECONDS if expected else SECONDS_OF.get(name, 1)
    result = await unharmed.run(what, mark + code, seconds=seconds, client=name)
    assert expected is None or result.structured["ending"] in expected
    assert result.structured["ending"] != "finished" or result.structured["exit_code"] != 0 or name in HARMLESS
    assert size_of(unharmed.scene.workspace) < WRITTEN_AT_MOST
    assert within(GONE_SECONDS, lambda: not marked(unharmed.scene.mark))


async def test_what_lies_in_memory_has_a_bound(unharmed):
    sizes = await unharmed.run(RunKind.COMMAND, "df -B1 --output=size,target /tmp /dev/shm $HOME | tail -n +2")
    assert [line.split() for line in sizes.structured["stdout"].splitlines()] == [
        [str(LIMITS["temporary_bytes"]), "/tmp"],
        [str(256 * MIB), "/dev/shm"],
        [str(256 * MIB), "/home/agent"],
    ]


async def test_forty_commands_at_once_all_answer(unharmed):
    async def one(number):
        result = await unharmed.run(RunKind.COMMAND, f"sleep 0.1; echo {number}", seconds=30, client=str(number))
        return result.structured["stdout"] or text_of(result)

    assert await asyncio.gather(*(one(number) for number in range(40))) == [f"{number}\n" for number in range(40)]


async def test_a_call_that_is_cancelled_leaves_nothing(unharmed):
    sign = f"{unharmed.scene.workspace}/begun"
    code = f"export {MARK}={unharmed.scene.mark}; setsid sleep 410 & sleep 411 & touch begun; sleep 412"
    task = asyncio.create_task(unharmed.run(RunKind.COMMAND, code, seconds=30))
    while not os.path.exists(sign):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, ToolyardError)):
        await task
    assert within(GONE_SECONDS, lambda: not marked(unharmed.scene.mark))


async def test_a_session_that_takes_no_request_holds_up_nobody(unharmed):
    """Its pipe is full, and the warden has other runs to serve."""
    await unharmed.run(
        RunKind.PYTHON, "import os\nkept = os.dup(4); read, _ = os.pipe(); os.dup2(read, 4)", session="deaf"
    )
    deaf = asyncio.create_task(unharmed.run(RunKind.PYTHON, f"#{'x' * 400_000}", seconds=5, session="deaf"))
    other = await unharmed.run(RunKind.COMMAND, "echo fine", seconds=5)
    assert (other.structured["stdout"], other.structured["ending"]) == ("fine\n", "finished")
    assert (await deaf).structured["ending"] == "finished"  # it was killed, and the sandbox is still the same one
    again = await unharmed.run(RunKind.PYTHON, "20 + 3", seconds=5, session="deaf")
    assert again.structured["value"] == "23"
    await unharmed.run(RunKind.PYTHON, "1", session="deaf", reset=True)
    unharmed.yard.sandboxes.get_sandbox().sandbox.drop_session("deaf")


@pytest.fixture
def arena(tmp_path):
    with Arena(str(tmp_path), sandboxed=True, limits=LIMITS) as arena:
        yield arena


async def begun(arena, code):
    """A run that is under way, and what it will come to."""
    task = asyncio.create_task(arena.run(RunKind.COMMAND, f": > begun; {code}", seconds=30, client="begun"))
    while not os.path.exists(f"{arena.scene.workspace}/begun"):
        await asyncio.sleep(0.01)
    return task


async def signalled(arena, number):
    """What becomes of a run when every process of the sandbox, seen from outside, gets a signal."""
    task = await begun(arena, "exec sleep 420")
    victim = int(arena.scene.places()["victim"])
    meant = descendants_of(frozenset({os.getpid()})) - {victim}
    for pid in meant:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    if number == signal.SIGKILL:  # a run that reaches a sandbox in its last moment is lost with it
        assert within(GONE_SECONDS, lambda: not [pid for pid in meant if _lives(pid)])
    return (await asyncio.wait_for(task, LOST_SECONDS)).structured


async def test_a_sandbox_that_is_killed_from_outside_is_replaced(arena):
    await arena.run(RunKind.COMMAND, "echo the same > /tmp/kept", seconds=SECONDS)
    ran = await signalled(arena, signal.SIGKILL)
    assert ran["exit_code"] == 128 + signal.SIGKILL
    await works(arena)
    kept = await arena.run(RunKind.COMMAND, "ls /tmp/kept", seconds=SECONDS)
    assert "No such file" in kept.structured["stderr"]
    assert arena.scene.facts("") == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGINT, signal.SIGHUP])
async def test_other_signals_from_outside_end_the_run_and_not_the_sandbox(tmp_path, number):
    with Arena(str(tmp_path), sandboxed=True) as arena:
        await arena.run(RunKind.COMMAND, "echo the same > /tmp/kept", seconds=SECONDS)
        box = descendants_of(frozenset({os.getpid()}))
        ran = await signalled(arena, number)
        assert (ran["ending"], ran["exit_code"]) == ("finished", 128 + number)
        await works(arena, ended_by=number)
        kept = await arena.run(RunKind.COMMAND, "cat /tmp/kept", seconds=SECONDS)
        assert kept.structured["stdout"] == "the same\n"
        assert arena.scene.facts("") == set()
    assert within(GONE_SECONDS, lambda: not [pid for pid in box if _lives(pid)])


async def test_a_workspace_that_is_deleted_under_a_run_is_told(arena):
    task = await begun(arena, "sleep 0.5; echo x > late; true")
    shutil.rmtree(arena.scene.workspace)
    await asyncio.wait_for(task, LOST_SECONDS)
    try:
        answer = text_of(await arena.run(RunKind.COMMAND, "echo x > later && echo written", seconds=SECONDS))
    except ToolyardError as error:
        answer = str(error)
    assert not os.path.exists(f"{arena.scene.workspace}/later")
    assert "Traceback" not in answer


async def test_a_workspace_that_is_replaced_by_a_link_leads_nowhere(arena):
    await works(arena)
    os.rename(arena.scene.workspace, f"{arena.scene.base}/elsewhere")
    os.symlink(arena.scene.outside, arena.scene.workspace)
    try:
        answer = text_of(await arena.run(RunKind.COMMAND, "cat secret.txt; echo x > new; ls", seconds=SECONDS))
    except ToolyardError as error:
        answer = str(error)
    os.unlink(arena.scene.workspace)
    os.rename(f"{arena.scene.base}/elsewhere", arena.scene.workspace)
    assert arena.scene.facts(answer) == set()


@pytest.mark.parametrize(
    "code", ["sleep 430", "trap '' TERM HUP; setsid sleep 431 & (setsid sleep 432 &); sleep 433"]
)
def test_a_server_that_is_killed_takes_everything_with_it(tmp_path, code):
    with Arena(str(tmp_path), sandboxed=True) as arena:
        scene = arena.scene
        toolyard = [sys.executable, "-m", "toolyard", "mcp", "--workspace", scene.workspace, "--state", scene.state]
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
        with StdioClient(toolyard, env={**kept, "HOME": scene.home, "XDG_STATE_HOME": scene.state}) as client:
            command = f"export {MARK}={scene.mark}; {code} & touch begun; wait"
            client.send_request("tools/call", {"name": "Bash", "arguments": {"command": command, "timeout": 30_000}})
            assert within(SECONDS, lambda: os.path.exists(f"{scene.workspace}/begun") and bool(marked(scene.mark)))
            box = descendants_of(frozenset({client.process.pid}))
            client.process.kill()
            assert within(GONE_SECONDS, lambda: not marked(scene.mark))
            assert within(GONE_SECONDS, lambda: not [pid for pid in box if _lives(pid)])
            with pytest.raises((ServerGone, json.JSONDecodeError)):
                client.receive()
        assert scene.facts("") == set()


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False

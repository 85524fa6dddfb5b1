"""The process of a run: its lines come whole, and nothing of it is left in any ending."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.drivers.scripted import processes_of_run
from toolyard.core.errors import SystemFault
from toolyard.drivers.process import MAX_LINE, CliProcess, ProcessSpec

SECONDS = 20


def started(folder, command: str) -> ProcessSpec:
    (folder / "settings").mkdir(parents=True)
    (folder / "settings" / "settings.json").write_text("{}")
    run = f"run-{os.getpid()}-{folder.name}"
    return ProcessSpec(run, ("/bin/sh", "-c", command), "/", {"PATH": os.environ["PATH"]}, str(folder))


async def ran(start: ProcessSpec, during=None):
    process = await CliProcess.start(start)
    try:
        if during is not None:
            await during(process)
        lines = [line async for line in process.lines()]
        return lines, await process.wait_for_exit(), process
    finally:
        await process.close()


def left_of(start: ProcessSpec) -> list[object]:
    return [*processes_of_run(start.run), *([start.folder] if os.path.exists(start.folder) else [])]


async def until_running(start: ProcessSpec, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while len(processes_of_run(start.run)) < count:
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def test_lines_and_the_exit_code_come_and_the_folder_goes(tmp_path):
    start = started(tmp_path / "run", "echo one; printf two; exit 7")
    lines, code, _ = asyncio.run(ran(start))
    assert (lines, code) == ([b"one", b"two"], 7)
    assert left_of(start) == []


def test_a_program_that_cannot_be_started_is_told_so(tmp_path):
    start = started(tmp_path / "run", "")
    start = ProcessSpec(start.run, ("/no/such/program",), "/", {}, start.folder)
    with pytest.raises(SystemFault, match="/no/such/program could not be started: No such file"):
        asyncio.run(ran(start))
    assert left_of(start) == []


def test_children_that_made_sessions_of_their_own_or_lost_their_parents_end_with_it(tmp_path):
    start = started(
        tmp_path / "run", "setsid sleep 1000 & (setsid sh -c 'sleep 1001 & sleep 1002' &); sleep 0.2; echo up"
    )
    lines, code, _ = asyncio.run(ran(start))
    assert (lines, code) == ([b"up"], 0)
    assert left_of(start) == []


def test_who_listens_to_sigterm_ends_by_it_and_who_does_not_is_made_to(tmp_path):
    async def stop(process):
        await until_running(process._spec, 2)
        process.stop()

    polite = started(tmp_path / "polite", "sleep 1000")
    assert asyncio.run(ran(polite, stop))[1] == -signal.SIGTERM
    is_deaf = tmp_path / "is-deaf"  # stopped before its trap is set, it would end politely

    async def stop_deaf(process):
        while not is_deaf.exists():
            await asyncio.sleep(0.01)
        process.stop()

    deaf = started(tmp_path / "deaf", f"trap '' TERM; touch {is_deaf}; while :; do sleep 0.05; done")
    assert asyncio.run(ran(deaf, stop_deaf))[1] == -signal.SIGKILL
    assert left_of(polite) == left_of(deaf) == []


def test_a_folder_that_the_cli_closed_even_to_its_owner_goes(tmp_path):
    start = started(tmp_path / "run", "mkdir -p a/b/c; chmod 0 a/b")
    start = ProcessSpec(start.run, start.command, start.folder, start.variables, start.folder)
    asyncio.run(ran(start))
    assert left_of(start) == []


def test_long_lines_come_whole_and_endless_ones_stop_nothing(tmp_path):
    size = 2_000_000
    line = "head -c {} /dev/zero | tr '\\0' {}; echo; "
    command = line.format(size, "x") + line.format(MAX_LINE + 70_000, "y") + "echo end"
    lines, code, process = asyncio.run(ran(started(tmp_path / "run", command)))
    assert [len(line) for line in lines] == [size, 3]
    assert (code, process.dropped_lines) == (0, 1)


def test_what_is_said_on_stderr_never_blocks_and_its_end_is_kept_without_secrets(tmp_path):
    command = "head -c 10000000 /dev/zero | tr '\\0' e >&2; echo the key is s3cret >&2; echo done"
    lines, code, process = asyncio.run(ran(started(tmp_path / "run", command)))
    assert (lines, code) == ([b"done"], 0)
    assert process.stderr_tail(["s3cret"]).endswith("eeethe key is ***")


def test_a_killed_keeper_leaves_nothing_either(tmp_path):
    start = started(tmp_path / "run", "setsid sleep 1000 & sleep 1001")

    async def kill(process):
        await until_running(start, 4)
        os.kill(process._reaper.pid, signal.SIGKILL)

    _, code, _ = asyncio.run(ran(start, kill))
    assert code is None
    assert processes_of_run(start.run) == []


def test_a_killed_keeper_leaves_no_child_that_cleared_its_environment_either(tmp_path):
    marks = [f"{tmp_path}/{name}" for name in ("child", "orphan")]
    hidden = "env -i sh -c 'echo $$ > {0}.tmp; mv {0}.tmp {0}; exec sleep 1000'"
    start = started(tmp_path / "run", f"{hidden.format(marks[0])} & ({hidden.format(marks[1])} &); sleep 1001")

    async def kill(process):
        async with asyncio.timeout(SECONDS):
            while not all(os.path.exists(mark) for mark in marks):
                await asyncio.sleep(0.01)
        os.kill(process._reaper.pid, signal.SIGKILL)

    _, code, _ = asyncio.run(ran(start, kill))
    assert code is None
    assert [mark for mark in marks if is_running(int(pathlib.Path(mark).read_text()))] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_we_are_killed(tmp_path, number):
    folder = tmp_path / "run"
    program = textwrap.dedent(f"""
        import asyncio, pathlib
        from tests.drivers.test_process import started
        from toolyard.drivers.process import CliProcess
        async def main():
            start = started(pathlib.Path({str(folder)!r}), "setsid sleep 1000 & trap '' TERM; sleep 1001; sleep 1002")
            print(start.run, flush=True)
            process = await CliProcess.start(start)
            async for _ in process.lines(): pass
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as us:
        run = us.stdout.readline().strip()
        end = time.monotonic() + SECONDS
        while len(processes_of_run(run)) < 4:
            assert time.monotonic() < end, "it never ran"
            time.sleep(0.01)
        os.kill(us.pid, number)
    while processes_of_run(run) or folder.exists():
        assert time.monotonic() < end + SECONDS, "something was left"
        time.sleep(0.01)


KEEPER = """
import os, socket, sys
from toolyard.drivers import reaper
kill, late = os.killpg, []
def watched(group, number):
    if not os.path.exists(f"/proc/{group}"): late.append(group)
    kill(group, number)
os.killpg = watched
ours, theirs = socket.socketpair()
said = os.dup(1)
reaper.main(theirs, sys.argv[1], os.devnull, ["/bin/sh", "-c", sys.argv[2]])
os.write(said, f"{ours.recv(99).decode().strip()}, too late: {len(late)}\\n".encode())
"""


@pytest.mark.parametrize("command", ["exit 3", "sleep 60 & exit 3", "setsid sleep 60 & exit 3"])
def test_the_keeper_signals_no_group_whose_number_may_be_anothers(tmp_path, command):
    (tmp_path / "run").mkdir()
    words = [sys.executable, "-c", KEEPER, str(tmp_path / "run"), command]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert ran.stdout == "exit 3, too late: 0\n"

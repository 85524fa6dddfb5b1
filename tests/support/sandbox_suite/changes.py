"""What every sandbox must record of what its runs change, where it is asked to."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.support.sandbox_suite.kit import RUN_SECONDS, Kit, Opened, Ran
from toolyard.linux import change_filter
from toolyard.sandbox.spec import ChangedPath, Mount, RunEnding, RunKind, RunRequest

_FLOOD = 3_000
_TOLD_AT_LEAST = 3
_HOSTILE = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
for address in (0, 1, 8, 1 << 46, (1 << 63) + 8, (1 << 64) - 1):
    libc.unlink(ctypes.c_void_p(address))
    libc.open(ctypes.c_void_p(address), 0o101, 0o600)
    libc.rename(ctypes.c_void_p(address), b"x")
end = libc.mmap(None, 4096, 3, 0x22, -1, 0) + 4096 - 3  # a text whose end is not there
ctypes.memmove(end, b"abc", 3)
libc.unlink(ctypes.c_void_p(end))
libc.unlinkat(12345, b"x", 0)
libc.unlink(b"x" * 10_000)

def gone():
    for _ in range(50):
        libc.unlink(b"never/there")
        if os.fork() == 0:
            libc.open(b"quick", 0o101, 0o600)
            os._exit(0)

threads = [threading.Thread(target=gone) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
open("last", "w").close()
"""

_OWN_ENTRIES = """
import os
os.chdir("sub")
ways = {"made": "/proc/self/cwd/made", "made-too": "/proc/thread-self/cwd/made-too"}
ways["by-folder"] = f"/proc/self/fd/{os.open('.', os.O_RDONLY)}/by-folder"
ways["held"] = f"/proc/self/fd/{os.open('held', os.O_RDONLY)}"
for name, way in ways.items():
    try: os.close(os.open(way, os.O_WRONLY | os.O_CREAT, 0o600))
    except PermissionError: continue  # some sandboxes show nothing of /proc
    print(name)
"""
_TOO_DEEP = """
import os
for _ in range(25):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
"""
_TOO_FAR = """
import os
for _ in range(14):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
os.makedirs("/".join(["e" * 200] * 10))
"""


@dataclass
class Heard:
    """A sink that keeps everything."""

    states: list[bool] = field(default_factory=list[bool])
    paths: list[ChangedPath] = field(default_factory=list[ChangedPath])
    some: threading.Event = field(default_factory=threading.Event)

    def report_coverage(self, *, is_complete: bool) -> None:
        self.states.append(is_complete)

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        self.paths += paths
        self.some.set()

    def below(self, folder: str) -> set[str]:
        """The paths in a folder; those of trees end with a slash."""
        cut = len(os.fsencode(folder)) + 1
        return {os.fsdecode(each.path[cut:]) + "/" * each.is_tree for each in self.paths}


def recorded(box: Opened, code: str, *, what: RunKind = RunKind.COMMAND, session: str = "") -> tuple[Heard, Ran]:
    heard = Heard()
    return heard, box.run(RunRequest(what, code, RUN_SECONDS, session, changes=heard))


class Changes:
    @pytest.fixture(autouse=True)
    def _possible(self) -> None:
        if why := change_filter.unsupported_reason():
            pytest.skip(why)

    def test_every_way_to_change_a_file_is_recorded(self, kit: Kit) -> None:
        for name in ("changed", "removed", "moved", "mode", "cut"):
            kit.file(f"workspace/{name}", "1")
        command = (
            "echo 1 > made; echo 2 >> changed; rm removed; mv moved moved-to; mkdir folder; ln -s made link; "
            "ln made second; chmod 700 mode; truncate -s 0 cut; rmdir folder; cat changed > /dev/null"
        )
        heard, ran = recorded(kit.open(records_changes=True), command)
        assert (ran.code, ran.err) == (0, b"")
        assert heard.states == [True]
        made = {"made", "changed", "removed", "moved", "moved-to", "folder", "link", "second", "mode", "cut"}
        assert heard.below(kit.workspace) == made

    def test_python_its_threads_and_what_it_starts_are_recorded(self, kit: Kit) -> None:
        kit.file("workspace/mode", "1")
        code = (
            "import os, subprocess, threading\nopen('a', 'w').close()\nos.mkdir('b')\n"
            "t = threading.Thread(target=lambda: os.symlink('a', 'c')); t.start(); t.join()\n"
            "subprocess.run(['touch', 'd'], close_fds=False)\nos.fchmod(os.open('mode', os.O_RDONLY), 0o700)"
        )
        heard, ran = recorded(kit.open(records_changes=True), code, what=RunKind.PYTHON)
        assert ran.raised == ""
        assert (heard.states, heard.below(kit.workspace)) == ([True], {"a", "b", "c", "d", "mode"})

    def test_paths_are_those_that_the_kernel_finds(self, kit: Kit) -> None:
        kit.file("workspace/deep/down/file", "1")
        command = (
            "ln -s deep/down short; ln -s nowhere-yet dangling; cd -P short; echo 1 > here; echo 1 > ../up; "
            f"echo 1 > {kit.workspace}/short/../whole; cd ../..; echo 1 > short/through; echo 1 > dangling; "
            "python3 -c \"import os; os.close(os.open('by', 65, dir_fd=os.open('short', 0)))\"; rm short"
        )
        heard, ran = recorded(kit.open(records_changes=True), command)
        assert (ran.code, ran.err) == (0, b"")
        made = {"deep/down/here", "deep/up", "deep/whole", "deep/down/through", "nowhere-yet", "deep/down/by"}
        assert heard.below(kit.workspace) == {"short", "dangling", *made}

    def test_paths_through_a_process_own_entries_in_proc_are_those_of_the_process(self, kit: Kit) -> None:
        kit.file("workspace/sub/held", "1")
        heard, ran = recorded(kit.open(records_changes=True), _OWN_ENTRIES, what=RunKind.PYTHON)
        assert ran.raised == ""
        assert heard.below(kit.workspace) == {f"sub/{name}" for name in ran.text.split()}
        assert (heard.states, len(ran.text.split()) > 0) == ([True], True)

    @pytest.mark.parametrize("deep", [_TOO_DEEP, _TOO_FAR])
    def test_a_path_that_is_too_long_to_be_told_leaves_no_complete_record(self, kit: Kit, deep: str) -> None:
        heard, ran = recorded(kit.open(records_changes=True), deep, what=RunKind.PYTHON)
        assert (ran.raised, heard.states) == ("", [True, False])

    def test_a_folder_that_is_moved_is_recorded_with_all_beneath_it(self, kit: Kit) -> None:
        kit.file("workspace/old/file", "1")
        heard, _ = recorded(kit.open(records_changes=True), "mv old new; echo 1 > new/file")
        assert heard.below(kit.workspace) == {"old/", "new/", "new/file"}

    def test_only_what_runs_may_change_on_the_host_is_recorded(self, kit: Kit) -> None:
        beside = os.path.dirname(kit.file("beside/file", ""))
        box = kit.open(records_changes=True, mounts=(Mount(beside, writable=True),))
        heard, ran = recorded(box, f"echo 1 > {beside}/made; echo 1 > $TMPDIR/x; rm $TMPDIR/x")
        assert ran.code == 0
        assert {os.fsdecode(each.path) for each in heard.paths} == {f"{beside}/made"}

    def test_what_a_run_changes_is_told_while_it_runs(self, kit: Kit) -> None:
        heard, done = Heard(), threading.Event()
        box = kit.open(records_changes=True)
        code = "echo 1 > early; until [ -e go ]; do sleep 0.02; done"
        request = RunRequest(RunKind.COMMAND, code, RUN_SECONDS, changes=heard)
        thread = threading.Thread(target=lambda: (box.run(request), done.set()))
        thread.start()
        try:
            assert heard.some.wait(RUN_SECONDS)
            assert (heard.below(kit.workspace), done.is_set()) == ({"early"}, False)
        finally:
            kit.file("workspace/go", "")
            thread.join(RUN_SECONDS)

    def test_a_file_that_changes_all_the_time_is_told_again_while_the_run_goes_on(self, kit: Kit) -> None:
        heard = Heard()
        code = "for i in $(seq 20); do echo $i > log; sleep 0.1; done; sleep 1"
        ran = kit.open(records_changes=True).run(RunRequest(RunKind.COMMAND, code, RUN_SECONDS, changes=heard))
        times = [each.time_ns for each in heard.paths]
        assert ran.code == 0
        assert len(times) >= _TOLD_AT_LEAST
        assert times == sorted(times)

    def test_each_run_of_a_session_has_its_own_record(self, kit: Kit) -> None:
        box = kit.open(records_changes=True)
        for name in ("first", "second"):
            heard, _ = recorded(box, f"open({name!r}, 'w').close()", what=RunKind.PYTHON, session="s")
            assert (heard.states, heard.below(kit.workspace)) == ([True], {name})

    def test_runs_at_the_same_time_have_their_own_records(self, kit: Kit) -> None:
        box = kit.open(records_changes=True)
        heard = [Heard() for _ in range(4)]
        code = "for i in $(seq 50); do echo 1 > {0}-$i; rm {0}-$i; done; echo 1 > {0}"
        requests = [
            RunRequest(RunKind.COMMAND, code.format(n), RUN_SECONDS, changes=each) for n, each in enumerate(heard)
        ]
        threads = [threading.Thread(target=box.run, args=(request,)) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(RUN_SECONDS)
        for n, each in enumerate(heard):
            assert each.below(kit.workspace) == {f"{n}", *(f"{n}-{i}" for i in range(1, 51))}

    def test_bad_pointers_and_callers_that_vanish_break_nothing(self, kit: Kit) -> None:
        heard, ran = recorded(kit.open(records_changes=True), _HOSTILE, what=RunKind.PYTHON)
        assert (ran.outcome.ending, ran.raised) == (RunEnding.FINISHED, "")
        assert {"quick", "last"} <= heard.below(kit.workspace)

    def test_a_flood_is_recorded_whole_and_each_path_told_rarely(self, kit: Kit) -> None:
        code = f"import os\nfor i in range({_FLOOD}):\n    open(str(i), 'w').close()\n    os.unlink(str(i))"
        heard, ran = recorded(kit.open(records_changes=True), code, what=RunKind.PYTHON)
        assert ran.raised == ""
        assert heard.below(kit.workspace) == set(map(str, range(_FLOOD)))
        assert len(heard.paths) <= 2 * _FLOOD

    def test_one_that_keeps_others_out_of_its_memory_has_no_complete_record(self, kit: Kit) -> None:
        code = "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nopen('a', 'w').close()"
        heard, ran = recorded(kit.open(records_changes=True), code, what=RunKind.PYTHON)
        assert ran.raised == ""
        may_look = kit.tier.is_weak and os.geteuid() == 0  # a warden with capabilities reads it all the same
        assert heard.states == ([True] if may_look else [True, False])
        assert os.path.exists(f"{kit.workspace}/a")

    def test_a_killed_run_leaves_a_sandbox_that_works(self, kit: Kit) -> None:
        box = kit.open(records_changes=True)
        code = "while :; do echo 1 > x; rm x; done & while :; do echo 1 > y; done"
        ran = box.run(RunRequest(RunKind.COMMAND, code, 0.5, changes=Heard()))
        assert ran.outcome.ending is RunEnding.TIMEOUT
        heard, ran = recorded(box, "echo 1 > z")
        assert (ran.code, heard.below(kit.workspace)) == (0, {"z"})

    def test_a_run_that_is_lost_has_no_complete_record(self, kit: Kit) -> None:
        box = kit.open(records_changes=True)
        heard = Heard()

        def lose() -> None:
            heard.some.wait(RUN_SECONDS)
            kit.lose(box)

        thread = threading.Thread(target=lose)
        thread.start()
        ran = box.run(RunRequest(RunKind.COMMAND, "echo 1 > a; sleep 100", RUN_SECONDS, changes=heard))
        thread.join(RUN_SECONDS)
        assert (ran.outcome.ending, heard.states) == (RunEnding.LOST, [True, False])

    def test_the_record_gives_code_no_listener_and_no_new_power(self, kit: Kit) -> None:
        box = kit.open(records_changes=True)
        look = "    try: print(os.readlink(f'/proc/self/fd/{n}'))\n    except OSError: 0"
        code = f"import os\nfor n in range(256):\n{look}"
        heard, ran = recorded(box, code, what=RunKind.PYTHON)
        assert (ran.raised, heard.states) == ("", [True])
        assert "seccomp" not in ran.text
        if kit.strength.confines_files:
            _, ran = recorded(box, f"chmod 4755 . && echo set; mknod d c 1 3 && echo made; cat {kit.secret}")
            assert ran.out == b""

    def test_nothing_is_recorded_where_nobody_asked_for_it(self, kit: Kit) -> None:
        heard = Heard()
        assert kit.open().run(RunRequest(RunKind.COMMAND, "echo 1 > b", RUN_SECONDS, changes=heard)).code == 0
        assert (heard.states, heard.paths) == ([], [])
        assert kit.open(records_changes=True).command("echo 1 > c").code == 0

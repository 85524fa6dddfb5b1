"""What every sandbox must do when a run takes too much or has to end: limits, leftovers, losing the box itself."""

from __future__ import annotations

import os
import signal
import threading
from unittest.mock import patch

from tests.support.sandbox_suite.kit import LOST_SECONDS, RUN_SECONDS, Kit, has_cgroups, refusal, tight, within
from toolyard.core.limits import KIB, MIB, RunLimits
from toolyard.sandbox import guest_layout
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, Tier

_SOON = 5.0
"""Long enough for a loaded machine, and far from the run's own length."""
_STUBBORN = "trap '' TERM INT HUP QUIT; echo up; while :; do sleep 1; done"
_DAEMON = "(setsid sh -c 'trap \"\" TERM HUP; sleep 500 & sleep 501' >/dev/null 2>&1 </dev/null &)"
_TREE = f"{_DAEMON}; sleep 502 & nohup sleep 503 >/dev/null 2>&1 & echo up; {_STUBBORN}"
_KILLED, _TERMINATED, _OUT_OF_PROCESSOR_TIME = 128 + 9, 128 + 15, 128 + 24
_LONG_COMMAND = 5_000  # twice as many characters; more than a waiting shell is given to read
_MORE_THAN_WAIT = 3  # commands in a row, so that one at least was not started before the first of them
_FEW, _MANY = 40, 320
_NUMBERS_NOT_GIVEN = 300  # those a namespace keeps back are allowed for on top of the processes that were named
_FORKS = 400  # more than all of the above together
_OF_THE_SANDBOX = 16  # its own processes in a container, which are allowed for
_RESOURCES = guest_layout.resource_limits
_STARTED = 4  # processes of a tree that are worth waiting for


class Limits:
    def test_the_wall_clock_ends_a_run_and_keeps_what_it_printed(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command("echo so far; sleep 100", seconds=0.5)
        assert (ran.outcome.ending, ran.out, ran.code) == (RunEnding.TIMEOUT, b"so far\n", _TERMINATED)
        assert 0.5 <= ran.seconds < _SOON
        assert box.command("echo next").text == "next\n"

    def test_a_run_whose_time_is_up_may_clean_up(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command("trap 'echo cleaned up; exit 5' TERM; echo up; sleep 100 & wait", seconds=0.5)
        assert (ran.outcome.ending, ran.out, ran.code) == (RunEnding.TIMEOUT, b"up\ncleaned up\n", _TERMINATED)
        handler = "lambda *_: (time.sleep(0.3), print('done'), sys.exit(3))"
        code = f"import signal, sys, time\nsignal.signal(15, {handler})\ntime.sleep(100)"
        ran = box.command(f'python3 -c "{code}"; echo too far', seconds=1)
        assert (ran.outcome.ending, ran.out) == (RunEnding.TIMEOUT, b"done\n")

    def test_a_run_that_ignores_the_request_to_end_is_killed(self, kit: Kit) -> None:
        ran = kit.open().command(_STUBBORN, seconds=0.5)
        assert (ran.outcome.ending, ran.out, ran.code) == (RunEnding.TIMEOUT, b"up\n", _TERMINATED)
        assert ran.seconds < _SOON

    def test_processor_time_is_bounded(self, kit: Kit) -> None:
        box = kit.open(limits=tight(cpu_seconds=1))
        assert box.command("while :; do :; done").code == _OUT_OF_PROCESSOR_TIME
        busy = box.python("while True: pass")
        assert (busy.code, busy.outcome.ending) == (_OUT_OF_PROCESSOR_TIME, RunEnding.FINISHED)
        deaf = box.python("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass")
        assert (deaf.code, deaf.outcome.ending) == (_KILLED, RunEnding.FINISHED)

    def test_every_way_a_command_is_started_holds_the_same_limits(self, kit: Kit) -> None:
        """In units of 1,024 bytes, as bash tells them; no more than the host itself has."""
        named = tight(cpu_seconds=77, memory_bytes=256 * MIB, open_files=64, file_bytes=3 * MIB)
        box = kit.open(limits=named)
        tell = "ulimit -St; ulimit -Ht; ulimit -Sn; ulimit -Hn; ulimit -f; ulimit -c; ulimit -Sd; ulimit -Hd"
        wanted = "77\n78\n64\n64\n3072\n0\n262144\n262144\n"
        assert box.command(tell).text == wanted
        box.python("1", session="kept")
        assert [box.command(tell).text for _ in range(_MORE_THAN_WAIT)] == [wanted] * _MORE_THAN_WAIT
        box.python(
            "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()", session="at work"
        )
        assert [box.command(tell).text for _ in range(_MORE_THAN_WAIT)] == [wanted] * _MORE_THAN_WAIT
        assert box.command(tell + " #" * _LONG_COMMAND).text == wanted
        told = box.python(f"import subprocess\nsubprocess.run(['bash', '-c', {tell!r}], capture_output=True).stdout")
        assert told.value == str(wanted.encode())

    def test_memory_is_bounded(self, kit: Kit) -> None:
        box = kit.open(limits=tight(memory_bytes=256 * MIB))
        ran = box.python("len(bytearray(1 << 30))")
        assert ran.outcome.value is None or "MemoryError" in ran.raised
        assert box.python("len(bytearray(1 << 20))").value == str(1 << 20)

    def test_processes_are_bounded(self, kit: Kit) -> None:
        """By as many as were named, wherever anything but the namespace's own count can be had."""
        made = _forked(kit, _most(kit))
        is_close = kit.tier is Tier.DOCKER or os.geteuid() != 0 or has_cgroups()
        assert (made < _FORKS) is kit.strength.bounds_processes
        assert (made <= _most(kit) + _OF_THE_SANDBOX) is is_close

    def test_the_namespaces_own_count_bounds_processes_by_itself(self, kit: Kit) -> None:
        if kit.tier not in {Tier.BUBBLEWRAP, Tier.NAMESPACES} or guest_layout.pid_max(RunLimits()) == 0:
            return
        with (
            patch.object(Cgroup, "create", return_value=None),
            patch.object(guest_layout, "resource_limits", _without_processes),
        ):
            made = _forked(kit, _FEW)
        assert _FEW < made < _FEW + _NUMBERS_NOT_GIVEN

    def test_the_users_own_count_bounds_processes_by_itself(self, kit: Kit) -> None:
        if kit.tier is Tier.DOCKER:
            return  # the engine's own count cannot be taken away
        with patch.object(Cgroup, "create", return_value=None), patch.object(guest_layout, "pid_max", return_value=0):
            made = _forked(kit, _most(kit))
        assert (made <= _most(kit)) is (os.geteuid() != 0)  # it does not bind root

    def test_the_groups_count_bounds_processes_by_itself(self, kit: Kit) -> None:
        if kit.tier is Tier.DOCKER or not has_cgroups():
            return
        without = patch.object(guest_layout, "resource_limits", _without_processes)
        with without, patch.object(guest_layout, "pid_max", return_value=0):
            made = _forked(kit, _most(kit))
        assert made <= _most(kit)

    def test_a_fork_bomb_hurts_only_itself(self, kit: Kit) -> None:
        if not kit.strength.bounds_processes:
            return  # nothing would stop it
        box = kit.open(limits=tight(processes=310))
        bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
        assert box.python(bomb, seconds=1).outcome.ending in {RunEnding.TIMEOUT, RunEnding.LOST}
        assert box.command("echo next").text == "next\n"

    def test_open_files_are_bounded(self, kit: Kit) -> None:
        box = kit.open(limits=tight(open_files=64))
        ran = box.python(
            "try: [open('/dev/null') for _ in range(100)]\nexcept OSError as error: print(error.strerror)"
        )
        assert ran.text == "Too many open files\n"

    def test_the_size_of_files_is_bounded(self, kit: Kit) -> None:
        box = kit.open(limits=tight(file_bytes=MIB))
        write = "exec head -c 2000000 /dev/zero > big"
        assert {box.command(words).code for words in (write, write + " #" * _LONG_COMMAND)} == {128 + signal.SIGXFSZ}
        assert os.path.getsize(f"{kit.workspace}/big") == MIB
        assert "File too large" in box.python("open('big', 'wb').write(bytes(2_000_000))").raised

    def test_output_is_bounded_and_kept_up_to_there(self, kit: Kit) -> None:
        box = kit.open(limits=tight(output_bytes=100 * KIB))
        ran = box.command("yes")
        assert (ran.outcome.ending, len(ran.out)) == (RunEnding.OUTPUT, 100 * KIB)
        ran = box.python("while True: print('y' * 999)")
        assert (ran.outcome.ending, len(ran.out)) == (RunEnding.OUTPUT, 100 * KIB)
        exact = box.command(f"head -c {100 * KIB} /dev/zero")
        assert (exact.outcome.ending, len(exact.out)) == (RunEnding.FINISHED, 100 * KIB)

    def test_limits_cannot_be_raised_inside(self, kit: Kit) -> None:
        box = kit.open(limits=tight(open_files=64, cpu_seconds=100))
        raised = box.command("ulimit -H -n 128; ulimit -H -t 200; ulimit -n 65; ulimit -Hn; ulimit -Ht")
        if kit.strength.confines_files or os.geteuid() != 0:
            assert raised.text == "64\n101\n"  # the second in which the kernel says why
        assert box.command("ulimit -Hn").text == "64\n"  # at any rate not for the next run


class Leftovers:
    def test_a_finished_run_leaves_nothing_behind(self, kit: Kit) -> None:
        ran = kit.open().command(f"{_DAEMON}; sleep 502 & disown; echo done")
        assert (ran.text, ran.outcome.ending, ran.code) == ("done\n", RunEnding.FINISHED, 0)
        assert ran.seconds < _SOON  # the daemons hold its streams; nobody waits for them
        assert ran.outcome.leftover_processes >= 1
        assert kit.all_gone()

    def test_finished_code_leaves_nothing_behind(self, kit: Kit) -> None:
        code = "import subprocess\nfor n in (0, 1): subprocess.Popen(['sleep', '500'], start_new_session=bool(n))\n1"
        ran = kit.open().python(code)
        assert (ran.value, ran.outcome.ending) == ("1", RunEnding.FINISHED)
        assert kit.all_gone()

    def test_a_run_that_timed_out_leaves_nothing_behind(self, kit: Kit) -> None:
        assert kit.open().command(_TREE, seconds=1).outcome.ending is RunEnding.TIMEOUT
        assert kit.all_gone()

    def test_a_cancelled_run_leaves_nothing_behind(self, kit: Kit) -> None:
        begun = kit.open().begin(_TREE)
        assert within(_SOON, lambda: len(kit.marked()) >= _STARTED)
        begun.cancelled.set()
        ran = begun.result()
        assert (ran.outcome.ending, ran.code) == (RunEnding.CANCELLED, 128 + 9)
        assert kit.all_gone()

    def test_a_run_may_be_cancelled_before_it_starts(self, kit: Kit) -> None:
        cancelled = threading.Event()
        cancelled.set()
        ran = kit.open().run(RunRequest(RunKind.COMMAND, "sleep 100", RUN_SECONDS), cancelled=cancelled)
        assert ran.outcome.ending is RunEnding.CANCELLED
        assert ran.seconds < _SOON

    def test_ending_one_run_spares_the_others(self, kit: Kit) -> None:
        box = kit.open()
        other = box.begin("echo begun; (sleep 0.1 & wait); until [ -e go ]; do sleep 0.02; done; echo done")
        assert box.command(_TREE, seconds=0.5).outcome.ending is RunEnding.TIMEOUT
        assert box.command(f"{_DAEMON}; echo a").text == "a\n"
        kit.file("workspace/go", "")
        assert other.result().text == "begun\ndone\n"

    def test_a_dropped_session_leaves_nothing_behind(self, kit: Kit) -> None:
        box = kit.open()
        box.python("import subprocess\nchild = subprocess.Popen(['sleep', '500'])", session="a")
        assert within(_SOON, lambda: any("sleep" in line for line in _lines(kit)))
        box.sandbox.drop_session("a")
        assert kit.all_gone()

    def test_closing_ends_everything(self, kit: Kit) -> None:
        box = kit.open()
        begun = box.begin(_TREE)
        assert within(_SOON, lambda: len(kit.marked()) >= _STARTED)
        box.sandbox.close()
        assert begun.result().outcome.ending is RunEnding.LOST
        assert kit.all_gone()
        box.sandbox.close()  # twice is fine

    def test_a_closed_sandbox_runs_nothing(self, kit: Kit) -> None:
        box = kit.open()
        box.sandbox.close()
        assert "closed" in refusal(lambda: box.command("echo hello"))

    def test_killing_the_host_ends_everything(self, kit: Kit) -> None:
        with kit.host(_TREE) as host:
            assert within(_SOON, lambda: len(kit.marked()) > _STARTED)
            host.kill()
            assert kit.all_gone()


class Losing:
    def test_a_lost_box_ends_its_runs_and_is_replaced(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        begun = box.begin("echo up; sleep 100")
        kit.lose(box)
        assert begun.future.result(LOST_SECONDS).outcome.ending is RunEnding.LOST
        again = box.command("echo again")
        assert (again.text, again.outcome.sandbox_is_new) == ("again\n", True)
        assert box.command("echo again").outcome.sandbox_is_new is False
        session = box.python("'x' in globals()", session="a")
        assert (session.value, session.outcome.session_is_new) == ("False", True)

    def test_a_run_ends_with_its_warden_where_no_namespace_sees_to_that(self, kit: Kit) -> None:
        if kit.strength.own_spaces:
            return
        box = kit.open()
        begun = box.begin("echo up; exec sleep 100")
        for pid in box.processes:
            os.kill(pid, signal.SIGKILL)
        assert begun.future.result(LOST_SECONDS).outcome.ending is RunEnding.LOST
        assert kit.all_gone()

    def test_a_box_that_stopped_is_given_up_when_its_run_has_to_end(self, kit: Kit) -> None:
        """Somebody sent it SIGSTOP: it neither answers nor goes away."""
        if not kit.strength.own_spaces or kit.subject.lose is not None:
            return  # its first process is found as the lowest below ours, where there is one
        box = kit.open()
        kit.stop(box)
        ran = box.command("echo hello", seconds=0.2)
        assert ran.outcome.ending is RunEnding.LOST
        assert box.command("echo again").text == "again\n"

    def test_a_run_that_stops_everybody_holds_up_nobody_but_those_it_stopped(self, kit: Kit) -> None:
        """Processes that are about to wait for the next run too, while they come to be."""
        if not kit.strength.own_spaces:
            return  # it would stop the machine
        box = kit.open()
        box.python("x = 20", session="a")
        begun = box.begin("echo up; while :; do kill -STOP -1; done")
        beside = [box.command("echo beside", seconds=0.2).outcome.ending for _ in range(_MORE_THAN_WAIT)]
        begun.cancelled.set()
        assert set(beside) <= {RunEnding.FINISHED, RunEnding.TIMEOUT}
        assert begun.result().outcome.ending is RunEnding.CANCELLED
        after = [box.command("echo after") for _ in range(_MORE_THAN_WAIT)]
        assert [(ran.text, ran.outcome.sandbox_is_new) for ran in after] == [("after\n", False)] * _MORE_THAN_WAIT
        assert (box.python("1 + 1").value, box.python("x", session="a").value) == ("2", "20")

    def test_a_workspace_that_is_gone_is_told(self, kit: Kit) -> None:
        os.rmdir(kit.workspace)
        assert kit.workspace in refusal(kit.open)


def _most(kit: Kit) -> int:
    """How many processes to allow: where all of a user's are counted, some are there before."""
    return _FEW if kit.strength.own_spaces else _MANY


def _forked(kit: Kit, most: int) -> int:
    """How many processes code could make, of more than any count lets through. None of them is left."""
    box = kit.open(limits=tight(processes=most))
    ran = box.python(
        "import os, signal\nmade = 0\ntry:\n"
        f" for _ in range({_FORKS}):\n  if os.fork() == 0: signal.pause()\n  made += 1\n"
        "except OSError: pass\nmade"
    )
    made = int(str(ran.value))
    assert kit.all_gone()
    assert box.command("echo next").text == "next\n"
    return made


def _without_processes(limits: RunLimits) -> dict[str, int]:
    return {name: value for name, value in _RESOURCES(limits).items() if name != "processes"}


def _lines(kit: Kit) -> list[str]:
    return list(kit.marked().values())

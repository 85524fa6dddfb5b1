"""What every sandbox must do with a run: its output, its ending, its folder, its variables, its session."""

from __future__ import annotations

import os
import threading

from tests.support.sandbox_suite.kit import MARK, RUN_SECONDS, Kit, within
from toolyard.core.limits import KIB, MIB
from toolyard.sandbox import guest_layout
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, RunResult, Stream

_SET_BY_BASH = {"PWD", "OLDPWD", "SHLVL", "_"}
_LONG_COMMAND = 5_000  # twice as many characters; more than a waiting shell is given to read
_LONGER_THAN_ARGUMENTS = 200_000  # what the kernel takes for one
# bash tells what was ignored before it, which Python does not know of SIGPIPE.
_TELL = (
    "trap -p PIPE; python3 -c 'import os, signal; print(os.getsid(0) == os.getppid(), signal.pthread_sigmask(0, []), "
    "{signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGCHLD)} == {signal.SIG_DFL}, "
    "signal.getsignal(signal.SIGINT) is signal.default_int_handler)'"
)
_OF_THE_HOST = "PYTEST_CURRENT_TEST"
"""In the environment of whoever runs these cases."""


class Runs:
    def test_a_command_prints_and_finishes(self, kit: Kit) -> None:
        ran = kit.open().command("echo hello")
        assert (ran.outcome, ran.out, ran.err) == (
            RunResult(RunEnding.FINISHED, 0, folder=kit.workspace),
            b"hello\n",
            b"",
        )

    def test_code_answers_with_its_last_value(self, kit: Kit) -> None:
        ran = kit.open().python("print('said')\n20 + 1")
        assert (ran.outcome.ending, ran.code, ran.value, ran.out) == (RunEnding.FINISHED, 0, "21", b"said\n")

    def test_output_arrives_while_the_run_goes_on(self, kit: Kit) -> None:
        enough = threading.Event()
        request = RunRequest(RunKind.COMMAND, "echo first; sleep 100; echo second", RUN_SECONDS)
        ran = kit.open().run(request, lambda _stream, _data: enough.set(), enough)
        assert (ran.outcome.ending, ran.out) == (RunEnding.CANCELLED, b"first\n")

    def test_the_output_of_code_arrives_while_it_goes_on(self, kit: Kit) -> None:
        enough = threading.Event()
        request = RunRequest(RunKind.PYTHON, "import time\nprint('first')\ntime.sleep(100)", RUN_SECONDS)
        ran = kit.open().run(request, lambda _stream, _data: enough.set(), enough)
        assert (ran.outcome.ending, ran.out) == (RunEnding.CANCELLED, b"first\n")

    def test_output_and_errors_are_kept_apart(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command("echo out; echo err >&2")
        assert (ran.out, ran.err) == (b"out\n", b"err\n")
        ran = box.python("import sys\nprint('out')\nprint('err', file=sys.stderr)")
        assert (ran.out, ran.err) == (b"out\n", b"err\n")

    def test_exit_codes_are_told(self, kit: Kit) -> None:
        box = kit.open()
        assert [box.command(f"exit {code}").code for code in (0, 1, 7, 255)] == [0, 1, 7, 255]
        assert box.command("no-such-program-anywhere").code == 127

    def test_a_signal_is_told_as_a_shell_tells_it(self, kit: Kit) -> None:
        box = kit.open()
        assert box.command("kill -SEGV $$").code == 128 + 11
        assert box.command("kill -KILL $$").code == 128 + 9
        died = box.python("import os\nos.kill(os.getpid(), 15)")
        assert (died.outcome.ending, died.code, died.outcome.value) == (RunEnding.FINISHED, 128 + 15, None)

    def test_a_run_starts_in_the_folder_it_names_and_tells_where_it_ended(self, kit: Kit) -> None:
        kit.file("workspace/sub/deep/file", "")
        box = kit.open()
        assert box.command("pwd").text == f"{kit.workspace}\n"
        ran = box.command("pwd; cd deep", folder=f"{kit.workspace}/sub")
        assert (ran.text, ran.outcome.folder) == (f"{kit.workspace}/sub\n", f"{kit.workspace}/sub/deep")
        assert box.command("cd sub; exit 3").outcome.folder == f"{kit.workspace}/sub"
        for size in (_LONG_COMMAND, _LONGER_THAN_ARGUMENTS):
            assert box.command(f"cd sub; exit 3 #{'x' * size}").outcome.folder == f"{kit.workspace}/sub"
        assert box.python("import os\nos.getcwd()").value == repr(kit.workspace)
        box.python("1", session="kept")  # while something runs, shells are started in another way
        for _ in range(3):
            assert box.command("cd sub").outcome.folder == f"{kit.workspace}/sub"

    def test_a_folder_that_is_gone_fails_the_run_and_says_so(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command("echo hello", folder=f"{kit.workspace}/nowhere")
        assert (ran.outcome.ending, ran.code, ran.out) == (RunEnding.FINISHED, 1, b"")
        assert b"nowhere" in ran.err
        assert box.command("echo hello").code == 0

    def test_the_environment_is_what_was_named_and_nothing_else(self, kit: Kit) -> None:
        assert _OF_THE_HOST in os.environ
        box = kit.open(environment={"NAMED": "a value\nof two lines"})
        plain = set(guest_layout.environment_variables("", {}, proxied=False)) | {"NAMED", MARK}
        lines = box.command("env -0").text.rstrip("\0").split("\0")
        seen = dict(line.split("=", 1) for line in lines)
        assert seen["NAMED"] == "a value\nof two lines"
        assert plain <= set(seen) <= plain | _SET_BY_BASH
        assert box.python("import os\nsorted(os.environ)").value == repr(sorted(plain))

    def test_one_run_does_not_inherit_from_another(self, kit: Kit) -> None:
        box = kit.open()
        box.command("export LEAKED=1; umask 0; ulimit -n 64; cd /")
        box.python("import os\nos.environ['LEAKED'] = '1'\nleaked = 1")
        ran = box.command("echo ${LEAKED-none} $(umask) $(ulimit -n)")
        assert ran.text == f"none 0022 {box.spec.limits.open_files}\n"
        assert "NameError" in box.python("leaked").raised

    def test_a_command_starts_in_a_session_of_its_own_and_ignores_no_signal(self, kit: Kit) -> None:
        """Whichever way its shell was started."""
        box = kit.open()
        assert box.command(_TELL).text == "True set() True True\n"
        box.python("1", session="kept")  # while something runs, shells are started in another way
        for command in (*[_TELL] * 3, _TELL + " #" * _LONG_COMMAND, _TELL + " " * _LONGER_THAN_ARGUMENTS):
            assert box.command(command).text == "True set() True True\n"

    def test_code_starts_in_a_session_of_its_own_with_the_signals_of_any_python(self, kit: Kit) -> None:
        box = kit.open()
        tell = (
            "import os, signal, sys\nusual = [signal.SIG_IGN, signal.SIG_DFL, signal.SIG_DFL, "
            "signal.default_int_handler]\nheld = (signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT)\n"
            "(os.getsid(0) == os.getpid(), [signal.getsignal(n) for n in held] == usual, "
            "signal.set_wakeup_fd(-1), os.read(0, 1), sys.stdin.read())"
        )
        for _ in range(3):
            assert box.python(tell).value == "(True, True, -1, b'', '')"

    def test_there_is_nothing_to_read_from(self, kit: Kit) -> None:
        assert kit.open().command("cat; read line; echo $?").text == "1\n"

    def test_output_may_be_any_bytes(self, kit: Kit) -> None:
        every = b"import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4)"
        ran = kit.open().python(f"{every.decode()}\nNone")
        assert ran.out == bytes(range(256)) * 4
        assert kit.open().command(r"printf '\377\000\n'").out == b"\xff\x00\n"

    def test_a_megabyte_arrives_whole_and_in_order(self, kit: Kit) -> None:
        ran = kit.open().command("seq 200000")
        assert ran.out == b"".join(b"%d\n" % number for number in range(1, 200_001))
        assert len(ran.out) > MIB

    def test_text_of_any_script_passes(self, kit: Kit) -> None:
        box = kit.open()
        assert box.command("echo 'ünï 漢字 🦊'; touch 'né 漢'; ls").text == "ünï 漢字 🦊\nné 漢\n"
        assert box.python("'漢字 🦊'").value == repr("漢字 🦊")

    def test_a_command_may_be_long(self, kit: Kit) -> None:
        """Longer than one argument of a program can be."""
        text = "0123456789abcde\n" * (40 * KIB)
        ran = kit.open().command(f"cat > long <<'END'\n{text}END\nwc -c < long; echo \"$#\"")
        assert (ran.text, ran.code) == (f"{len(text)}\n0\n", 0)
        with open(f"{kit.workspace}/long", encoding="ascii") as file:
            assert file.read() == text

    def test_a_nul_in_the_text_fails_the_run_alone(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command("echo a\0b")
        assert ran.outcome.ending is RunEnding.FINISHED
        assert ran.code != 0
        astray = box.command("echo a", folder="/\0echo b")
        assert (astray.out, astray.code) == (b"", 1)
        assert "null bytes" in box.python("1\0").raised
        again = box.command("echo a")
        assert (again.text, again.outcome.sandbox_is_new) == ("a\n", False)

    def test_broken_code_tells_its_error_and_fails_the_run_alone(self, kit: Kit) -> None:
        box = kit.open()
        assert box.command("if then").code == 2
        assert "ZeroDivisionError" in box.python("1 / 0").raised
        assert "SyntaxError" in box.python("1 +").raised
        assert box.command("echo a").text == "a\n"

    def test_closing_the_streams_does_not_end_a_run(self, kit: Kit) -> None:
        ran = kit.open().command("echo a; exec 0<&- 1>&- 2>&-; sleep 0.3; echo late > file; exit 7")
        assert (ran.outcome.ending, ran.code, ran.out) == (RunEnding.FINISHED, 7, b"a\n")
        assert os.path.exists(f"{kit.workspace}/file")

    def test_many_runs_at_once_keep_their_output_apart(self, kit: Kit) -> None:
        box = kit.open()
        count = 24
        ran = box.at_once([f"for i in 1 2 3; do echo {number}; done; exit {number}" for number in range(count)])
        assert [(run.text, run.code) for run in ran] == [(f"{n}\n" * 3, n) for n in range(count)]

    def test_what_a_run_writes_is_the_callers(self, kit: Kit) -> None:
        kit.open().command("echo text > made; mkdir folder")
        status = os.stat(f"{kit.workspace}/made")
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (os.geteuid(), os.getegid(), 0o644)
        os.rmdir(f"{kit.workspace}/folder")

    def test_the_sink_is_told_the_streams(self, kit: Kit) -> None:
        seen: set[Stream] = set()
        request = RunRequest(RunKind.COMMAND, "echo a >&2", RUN_SECONDS)
        kit.open().run(request, lambda stream, _data: seen.add(stream))
        assert seen == {Stream.ERR}


class Sessions:
    def test_a_session_keeps_its_variables(self, kit: Kit) -> None:
        box = kit.open()
        first = box.python("x = 20", session="a")
        second = box.python("x + 1", session="a")
        assert (first.outcome.session_is_new, second.outcome.session_is_new, second.value) == (True, False, "21")

    def test_sessions_and_other_runs_do_not_share_variables(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        assert "NameError" in box.python("x", session="b").raised
        assert "NameError" in box.python("x").raised
        assert box.python("x", session="a").value == "20"

    def test_a_failed_piece_leaves_the_session(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20\n1 / 0", session="a")
        assert box.python("x", session="a").value == "20"

    def test_a_dropped_session_is_forgotten(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        assert (box.sandbox.drop_session("a"), box.sandbox.drop_session("b")) == (True, False)
        again = box.python("'x' in globals()", session="a")
        assert (again.value, again.outcome.session_is_new) == ("False", True)

    def test_a_session_that_died_is_replaced_and_that_is_told(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        died = box.python("import os\nos._exit(3)", session="a")
        again = box.python("'x' in globals()", session="a")
        assert (died.outcome.ending, died.code, died.outcome.value) == (RunEnding.FINISHED, 3, None)
        assert (again.value, again.outcome.session_is_new, again.outcome.sandbox_is_new) == ("False", True, False)

    def test_a_session_that_timed_out_is_replaced_and_that_is_told(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        hung = box.python("print('so far')\nwhile True: pass", session="a", seconds=0.5)
        again = box.python("'x' in globals()", session="a")
        assert (hung.outcome.ending, hung.out) == (RunEnding.TIMEOUT, b"so far\n")
        assert (again.value, again.outcome.session_is_new) == ("False", True)

    def test_the_death_of_a_session_touches_no_other_run(self, kit: Kit) -> None:
        box = kit.open()
        box.python("y = 1", session="b")
        other = box.begin("echo begun; until [ -e go ]; do sleep 0.02; done; echo done")
        box.python("import os, subprocess\nsubprocess.Popen(['sleep', '500'])\nos._exit(3)", session="a")
        kit.file("workspace/go", "")
        assert (other.result().text, box.python("y", session="b").value) == ("begun\ndone\n", "1")

    def test_a_session_can_be_asked_from_two_sides(self, kit: Kit) -> None:
        """They take turns."""
        box = kit.open()
        box.python("count = 0", session="a")
        step = "import time\nseen = count\ntime.sleep(0.01)\ncount = seen + 1"
        threads = [threading.Thread(target=box.python, args=(step,), kwargs={"session": "a"}) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(RUN_SECONDS)
        assert box.python("count", session="a").value == "4"

    def test_who_waits_for_a_busy_session_waits_no_longer_than_its_own_time_and_then_never_runs(
        self, kit: Kit
    ) -> None:
        box = kit.open()
        code = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)"
        first = threading.Thread(target=box.python, args=(code,), kwargs={"session": "a"})
        first.start()
        try:
            assert within(RUN_SECONDS, lambda: os.path.exists(f"{kit.workspace}/begun"))
            late = box.python("open('late', 'w')", session="a", seconds=0.2)
            left = threading.Event()
            left.set()
            request = RunRequest(RunKind.PYTHON, "open('left', 'w')", RUN_SECONDS, "a")
            gone = box.sandbox.run(request, _unheard, left)
        finally:
            kit.file("workspace/go", "")
            first.join(RUN_SECONDS)
        assert (late.outcome.ending, late.out, late.err) == (RunEnding.BUSY, b"", b"")
        assert gone.ending is RunEnding.CANCELLED
        assert box.python("sorted(os.listdir())", session="a").value == "['begun', 'go']"


def _unheard(_stream: Stream, _data: bytes) -> None:
    """For output that nobody expects."""

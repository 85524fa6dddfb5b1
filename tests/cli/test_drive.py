"""`toolyard drive`, with a program in the place of Gemini CLI that does what its prompt says."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from tests.cli import scripted_gemini
from toolyard.cli.main import toolyard
from toolyard.drivers import Finished, Status, from_json

# Each test starts three interpreters, one after the other.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]
SECONDS = 100


class Driving:
    def __init__(self, base: pathlib.Path) -> None:
        self.base = base
        self.workspace = base / "ws"
        self.state = base / "state"
        self.temporary = base / "tmp"
        self.temporary.mkdir()
        self.workspace.mkdir()
        self.started: list[subprocess.Popen] = []
        self.programs = scripted_gemini.install(base / "bin")
        self.env = {
            "PATH": f"{self.programs}:{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "HOME": str(base),
            "TMPDIR": str(self.temporary),
            "XDG_STATE_HOME": str(self.temporary),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "GEMINI_API_KEY": "a-key-that-nobody-asks-for",
        }

    def words(self, *steps: list | str, **options: object) -> list[str]:
        prompt = steps[0] if steps and isinstance(steps[0], str) else json.dumps(steps)
        where = ["--workspace", str(self.workspace), "--state", str(self.state)]
        more = [word for name, value in options.items() for word in _option(name, value)]
        return [sys.executable, "-m", "toolyard", "drive", "gemini", prompt, *where, *more]

    def start(self, *steps: list | str, stdin=subprocess.DEVNULL, **options) -> subprocess.Popen:
        pipe, words = subprocess.PIPE, self.words(*steps, **options)
        process = subprocess.Popen(words, stdin=stdin, stdout=pipe, stderr=pipe, env=self.env, text=True)
        self.started.append(process)
        return process

    def end(self) -> None:
        """What a test that failed left running; with it goes all that it started."""
        for process in self.started:
            with process:
                process.kill()

    def run(self, *steps: list | str, code: int = 0, stdin: str | None = None, **options) -> str:
        process = self.start(*steps, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, **options)
        said, errors = process.communicate(stdin, timeout=SECONDS)
        assert process.returncode == code, said + errors
        return said + errors

    def messages(self, *steps: list | str, code: int = 0, **options) -> list:
        said = self.run(*steps, code=code, json=True, **options)
        return [from_json(json.loads(line)) for line in said.splitlines()]

    def leftovers(self) -> list[str]:
        """Folders of runs, and processes that stand in one."""
        # os.walk passes over folders that go while it looks; rglob raises.
        walked = os.walk(self.temporary)
        found = [os.path.join(at, name) for at, names, _ in walked for name in names if "toolyard-drive-" in name]
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                if b"TOOLYARD_RUN=" in variables and str(self.temporary).encode() in variables:
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                    found += [] if state in {"Z", "X"} else [pid]
        return found

    def is_gone(self) -> bool:
        until = time.monotonic() + 10
        while self.leftovers() and time.monotonic() < until:
            time.sleep(0.05)
        return not self.leftovers()


def _option(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [flag] if value is True else [flag, str(value)]


@pytest.fixture
def driving(tmp_path):
    made = Driving(tmp_path)
    try:
        yield made
    finally:
        made.end()
    assert made.is_gone(), made.leftovers()


def until(path: pathlib.Path) -> None:
    limit = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < limit, f"{path} never came"
        time.sleep(0.01)


def test_a_run_is_told_in_plain_lines_where_there_is_no_terminal(driving):
    said = driving.run("Write it down.")
    lines = [line.rsplit("  ", 1)[0] if line.startswith("  ✓") else line for line in said.splitlines()]
    assert lines[:8] == [
        *(f"Gemini CLI  gemini-2.5-pro · {'~/ws'}", "", "I will write it down.", ""),
        *("  ✓ Write  hello.txt  new, 1 line", "  ✓ Read   hello.txt  1 line", ""),
        "Done: `hello.txt` says hello.",
    ]
    assert lines[9].startswith("✓ Succeeded")
    assert lines[9].endswith("12,345 tokens in (10,240 cached), 350 out · $0.0074")
    assert lines[10] == "  A hello.txt  +1 -0"
    assert "\x1b" not in said


def test_the_command_it_ends_with_undoes_what_was_done(driving):
    (driving.workspace / "hello.txt").write_text("before\n")
    written = {"file_path": "hello.txt", "content": "hello\n"}
    said = driving.run(["call", "Read", {"file_path": "hello.txt"}], ["call", "Write", written])
    command = said[said.index("toolyard snapshot restore") :].strip().split()
    done = subprocess.run([sys.executable, "-m", *command], env=driving.env, check=False, timeout=SECONDS)
    assert done.returncode == 0
    assert (driving.workspace / "hello.txt").read_text() == "before\n"


def test_a_run_that_changed_nothing_says_so(driving):
    assert "No file was changed." in driving.run(["say", "Nothing to do."])


def test_json_is_one_message_a_line_and_nothing_else(driving):
    told = driving.messages("Write it down.")
    assert [message.type for message in told] == [
        *("session_started", "text_delta", "tool_call", "tool_result", "tool_call", "tool_result"),
        *("text_delta", "usage", "finished"),
    ]
    assert told[-1].status is Status.SUCCEEDED


def test_each_message_is_there_at_once(driving):
    go = driving.base / "go"
    process = driving.start(["say", "hm"], ["wait", str(go)], json=True)
    assert "session_started" in process.stdout.readline()
    assert "hm" in process.stdout.readline()
    go.touch()
    assert "finished" in process.communicate(timeout=SECONDS)[0]


def test_the_prompt_may_come_from_stdin(driving):
    steps = json.dumps([["say", "from stdin: " + "x" * 200_000]])
    said = driving.run("-", stdin=steps)
    assert "from stdin" in said


@pytest.mark.parametrize(
    ("steps", "code", "status"),
    [
        ([["fail", "429 Too Many Requests"]], 1, Status.FAILED),
        ([["alone"], ["say", "Done: all written."]], 3, Status.NOT_ATTACHED),
    ],
)
def test_the_exit_code_says_how_it_ended(driving, steps, code, status):
    assert driving.messages(*steps, code=code)[-1].status is status


def test_a_run_that_takes_too_long_is_ended(driving):
    said = driving.run(["child"], ["pause", 1000], code=124, timeout=4)
    assert "! Timed out" in said


def test_a_missing_cli_is_told_with_the_line_that_installs_it(driving):
    (driving.programs / "gemini").unlink()
    said = driving.run("Write it down.", code=1)
    assert said.count("is not installed") == 1
    assert "npm install -g @google/gemini-cli" in said


def test_a_cli_without_a_key_and_a_login_is_not_even_started(driving):
    del driving.env["GEMINI_API_KEY"]
    said = driving.run("Write it down.", code=1)
    assert "A run of Gemini CLI would not attach: it has no key and no login." in said
    assert "Set GEMINI_API_KEY, or log in with `gemini`." in said
    assert not (driving.workspace / "hello.txt").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drive", "gemni", "hi"], "'gemni' is not one of"),
        (["drive", "gemnii", "hi"], 'Did you mean "gemini"?'),
        (["drive", "gemini", "hi", "--permission-mode", "pln"], 'Did you mean "plan"?'),
        (["drive", "gemini", " "], "the prompt is empty"),
        (["drive", "gemini", "-"], "the prompt is empty"),
        (["drive", "gemini", "hi", "--timeout", "nan"], "is not between 0 and"),
        (["drive", "gemini", "hi", "--timeout", "0"], "is not between 0 and"),
        (["drive", "gemini", "hi", "--tools", "cluade"], "'cluade' is not a set of tools. Did you mean \"claude\"?"),
        (["mcp", "--tools", "foo"], "'foo' is not a set of tools. Known here: all, claude, code,"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(words, said):
    done = CliRunner().invoke(toolyard, words, input="")
    assert done.exit_code == 2
    told = " ".join(done.output.split())
    assert said in told
    assert told.count("reference") <= 1, "the sets are listed twice"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_run_and_it_says_so(driving, number):
    up = driving.base / "up"
    process = driving.start(["child"], ["open_call", "Bash", {"command": "x"}], ["touch", str(up)], ["pause", 1000])
    until(up)
    process.send_signal(number)
    said, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (130, "")
    assert "! Bash   x  no answer" in said
    assert "! Cancelled" in said


def test_a_second_signal_ends_it_at_once_and_leaves_nothing(driving):
    up = driving.base / "up"
    process = driving.start(["child"], ["touch", str(up)], ["pause", 1000])
    until(up)
    os.kill(process.pid, signal.SIGSTOP)  # both are there when it goes on
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Cancelled" not in said


def test_a_run_whose_reader_is_gone_ends_though_it_has_nothing_to_say(driving):
    up = driving.base / "up"
    process = driving.start(["child"], ["touch", str(up)], ["pause", 1000], json=True)
    until(up)
    assert "session_started" in process.stdout.readline()
    process.stdout.close()
    with process:
        assert process.wait(timeout=SECONDS) == 130
        assert process.stderr.read() == ""


class Screen:
    """A pseudo-terminal at which a run is watched."""

    def __init__(self, driving: Driving, *steps: list, env: dict[str, str] | None = None, **options: object) -> None:
        self.ours, theirs = pty.openpty()
        words, variables = driving.words(*steps, **options), {**driving.env, "COLUMNS": "80", **(env or {})}
        ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(words, env=variables, start_new_session=True, **ends)
        driving.started.append(self.process)
        os.close(theirs)
        self.shown = ""

    def until(self, words: str) -> None:
        limit = time.monotonic() + SECONDS
        while words not in self.shown:
            assert time.monotonic() < limit, self.shown
            assert self._read(), self.shown

    def _read(self) -> bool:
        if select.select([self.ours], [], [], 1)[0]:
            try:
                data = os.read(self.ours, 1 << 16)
            except OSError:  # the other end is closed
                return False
            self.shown += data.decode("utf-8", "replace")
            return bool(data)
        return True

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def ended(self) -> int:
        limit = time.monotonic() + SECONDS
        while self._read():
            if time.monotonic() > limit:
                self.process.kill()
                raise AssertionError(self.shown)
        os.close(self.ours)
        return self.process.wait(timeout=SECONDS)


def test_a_terminal_is_shown_what_goes_on_and_left_as_it_was(driving):
    go = driving.base / "go"
    steps = [["say", "I *see*.\n"], ["open_call", "Bash", {"command": "pytest -q"}], ["wait", str(go)]]
    screen = Screen(driving, *steps)
    screen.until("pytest -q")
    screen.until("Ctrl-C cancels")
    go.touch()
    assert screen.ended() == 1  # a call was left open
    assert "*see*" not in screen.shown
    assert "\x1b[31m" in screen.shown
    assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l")  # the cursor is back


def test_no_colour_is_shown_where_none_is_wanted(driving):
    screen = Screen(driving, ["say", "hm"], env={"NO_COLOR": "1"})
    assert screen.ended() == 0
    assert "\x1b[3" not in screen.shown


@pytest.mark.parametrize(("typed", "is_written"), [("y\n", True), ("\n", False), ("\x04", False)])
def test_who_sits_at_the_terminal_is_asked_where_the_policy_says_so(driving, typed, is_written):
    step = ["call", "Write", {"file_path": "a.txt", "content": "x"}]
    screen = Screen(driving, step, permission_mode="default")
    screen.until("Allow it? [y/N]")
    screen.type(typed)
    assert screen.ended() == 0
    assert (driving.workspace / "a.txt").exists() is is_written


def test_what_was_typed_before_a_question_is_no_answer_to_it(driving):
    go = driving.base / "go"
    steps = [["say", "hm"], ["wait", str(go)], ["call", "Write", {"file_path": "a.txt", "content": "x"}]]
    screen = Screen(driving, *steps, permission_mode="default")
    screen.until("is working")
    screen.type("y\n")
    go.touch()
    screen.until("Allow it? [y/N]")
    screen.type("n\n")
    assert screen.ended() == 0
    assert not (driving.workspace / "a.txt").exists()


def test_a_question_that_nobody_answers_does_not_keep_a_run_from_being_cancelled(driving):
    screen = Screen(driving, ["call", "Write", {"file_path": "a.txt", "content": "x"}], permission_mode="default")
    screen.until("Allow it? [y/N]")
    screen.process.send_signal(signal.SIGINT)
    assert screen.ended() == 130
    assert not (driving.workspace / "a.txt").exists()


def test_nobody_is_asked_where_nobody_is_there(driving):
    step = ["call", "Write", {"file_path": "a.txt", "content": "x"}]
    told = driving.messages(step, permission_mode="default")
    assert not next(message for message in told if message.type == "tool_result").ok
    assert isinstance(told[-1], Finished)

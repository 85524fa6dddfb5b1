"""`toolyard exec`: Python and commands in the sandbox, from the command line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SECONDS = 60
SOON = 30
"""Far from a run's length, and from a timeout that was read in another unit."""


@pytest.fixture
def run(tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()

    def run(*arguments, stdin=None, config=None):
        if config is not None:
            (tmp_path / "config.yaml").write_text(json.dumps(config))
            arguments = (*arguments, "--config", str(tmp_path / "config.yaml"))
        where = ["--workspace", str(workspace), "--state", str(tmp_path / "state")]
        return subprocess.run(
            [sys.executable, "-m", "toolyard", "exec", *where, *arguments],
            input="" if stdin is None else stdin,
            capture_output=True,
            check=False,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "SECRET_OF_THE_HOST": "do-not-tell"},
        )

    run.workspace = workspace
    return run


def test_the_value_of_the_last_expression_is_printed(run):
    done = run("-c", "print('hello')\n20 + 22")
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n42\n", "", 0)


@pytest.mark.parametrize("line", [("-c", "1 + 1"), ("--bash", "-c", "echo 2")], ids=["python", "bash"])
def test_what_a_model_has_in_its_context_does_not_count(run, line):
    chosen = {"toolyard": {"in_context_tools": {"filesystem": ["read_file"]}}}
    done = run(*line, config=chosen)
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


def test_long_output_is_printed_in_full(run):
    done = run("--bash", "-c", "seq 1 20000")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 20_001))


def test_code_comes_from_a_file_or_from_stdin(run, tmp_path):
    (tmp_path / "script.py").write_text("import asyncio\nawait asyncio.sleep(0)\n'from a file'")
    assert run(str(tmp_path / "script.py")).stdout == "'from a file'\n"
    assert run("-", stdin="'from stdin'").stdout == "'from stdin'\n"


def test_a_command_comes_from_a_file_or_from_stdin_and_gets_no_input(run, tmp_path):
    (tmp_path / "build.sh").write_text("here=file\necho $here")
    assert run("--bash", str(tmp_path / "build.sh")).stdout == "file\n"
    assert run("--bash", "-", stdin="here=stdin\necho $here; cat\n").stdout == "stdin\n"


def test_a_byte_order_mark_is_no_part_of_the_code(run):
    assert run("-", stdin="\ufeff'marked'").stdout == "'marked'\n"


@pytest.mark.parametrize(
    ("arguments", "what"), [(("-",), "standard input"), (("--bash", "-"), "standard input"), (("-c", ""), "CODE")]
)
def test_nothing_to_run_is_told_in_words_of_the_command_line(run, arguments, what):
    done = run(*arguments, stdin="")
    assert done.returncode == 2
    assert f"There is nothing to run: {what} is empty." in done.stderr


def test_an_exception_points_at_the_code_and_fails(run):
    done = run("-c", "x = 1\nx / 0")
    assert done.returncode == 1
    assert done.stdout == ""
    assert 'File "<code>", line 2' in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_the_exit_code_is_the_codes_own(run):
    assert run("-c", "import sys; sys.exit(7)").returncode == 7
    assert run("--bash", "-c", "exit 5").returncode == 5


def test_a_command_that_takes_too_long_keeps_its_output_and_says_so(run):
    began = time.monotonic()
    done = run("--bash", "-c", "echo begun; sleep 100", "--timeout", "0.5")
    assert time.monotonic() - began < SOON
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert done.stderr.startswith("[Timed out")


@pytest.mark.parametrize("kind", [("-c", "1"), ("--bash", "-c", "true")], ids=["python", "bash"])
@pytest.mark.parametrize("seconds", ["5", "inf", "nan"])
def test_a_timeout_that_is_too_long_is_refused_in_seconds(run, kind, seconds):
    config = {"toolyard": {"code_execution": {"limits": {"seconds": 2, "most_seconds": 4.5}}}}
    done = run(*kind, "--timeout", seconds, config=config)
    assert done.returncode == 2
    assert f"'--timeout': {seconds} exceeds the limit of 4.5 seconds for a run." in done.stderr
    assert "milliseconds" not in done.stderr
    assert "run_in_background" not in done.stderr


def test_the_longest_timeout_itself_is_taken(run):
    assert run("-c", "1", "--timeout", "600").stdout == "1\n"


def test_json_is_the_structured_result(run):
    done = run("--json", "-c", "1 + 1")
    assert json.loads(done.stdout) == {
        "stdout": "",
        "stderr": "",
        "value": "2",
        "error": None,
        "exit_code": 0,
        "ending": "finished",
        "notes": [],
        "images": 0,
        "sandbox": "bubblewrap",
    }


def test_files_are_made_in_the_workspace_and_nowhere_else(run, tmp_path):
    run("--bash", "-c", f"echo inside > made; echo outside > {tmp_path}/escaped")
    assert (run.workspace / "made").read_text() == "inside\n"
    assert not (tmp_path / "escaped").exists()


def test_nothing_of_the_hosts_environment_is_seen_but_what_is_named(run):
    config = {"toolyard": {"code_execution": {"env": {"NAMED": "${SECRET_OF_THE_HOST}!"}}}}
    done = run("--bash", "-c", "env", config=config)
    assert "SECRET_OF_THE_HOST=" not in done.stdout
    assert "NAMED=do-not-tell!\n" in done.stdout


def test_where_nobody_can_be_asked_the_answer_is_no(run):
    done = run("-c", "1", "--permission-mode", "default")
    assert done.returncode == 126
    assert "No one can approve it here" in done.stderr


def test_output_is_not_cut_for_a_program(run):
    assert run("--bash", "-c", "seq 1 100000").stdout == "".join(f"{number}\n" for number in range(1, 100_001))


def test_figures_are_kept_where_the_user_says(run, tmp_path):
    code = "import matplotlib.pyplot as p; p.plot([1, 2]); p.show()"
    assert "[1 image(s); --images DIR saves them]\n" in run("-c", code).stderr
    assert run("-c", code, "--images", str(tmp_path / "kept")).returncode == 0
    assert (tmp_path / "kept" / "image-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_place_for_figures_that_is_no_folder_is_told_before_anything_runs(run, tmp_path):
    (tmp_path / "taken").write_text("")
    done = run("--bash", "-c", "touch made", "--images", str(tmp_path / "taken"))
    assert done.returncode == 2
    assert f"'--images': the folder {tmp_path}/taken cannot be created: File exists." in done.stderr
    assert not (run.workspace / "made").exists()


def test_a_file_that_is_not_there_is_answered_with_the_option_that_was_meant(run):
    done = run("--bash", "ls -la")
    assert done.returncode == 2
    assert "To pass the code itself, use -c." in done.stderr


@pytest.mark.parametrize("arguments", [(), ("-c", "1", "-")], ids=["nothing to run", "two things to run"])
def test_wrong_use_is_told(run, arguments):
    done = run(*arguments, stdin="")
    assert done.returncode == 2
    assert "Give either FILE (- for stdin) or -c CODE." in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_interrupted_run_shows_what_it_had_printed(run, tmp_path, options):
    where = ["--workspace", str(run.workspace), "--state", str(tmp_path / "state")]
    code = "echo so far; echo and here >&2; touch begun; sleep 100"
    line = [sys.executable, "-m", "toolyard", "exec", *where, "--bash", "-c", code, *options]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + SOON
        while not (run.workspace / "begun").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SOON)
    assert process.returncode == 130
    if options:
        fields = json.loads(out)
        assert (fields["stdout"], fields["stderr"], fields["ending"]) == ("so far\n", "and here\n", "cancelled")
    else:
        assert (out, err) == ("so far\n", "and here\n[Interrupted; this is the output so far.]\n")


def test_an_ignore_file_that_is_not_accepted_is_reported(run, tmp_path):
    (tmp_path / "ws/.toolyardignore").write_text("data/\n")
    done = run("--bash", "-c", "touch made")
    assert done.returncode == 0
    assert "The rules in .toolyardignore have no effect on snapshots" in done.stderr

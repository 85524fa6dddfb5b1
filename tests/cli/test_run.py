"""`toolyard run` as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from toolyard.cli.main import toolyard
from toolyard.cli.run.list import show_runs
from toolyard.team.run_list import KnownRun
from toolyard.testing.mock_model import FOREVER, Call, Fail, Hang, ModelServer, Say, ScriptLike, by_model, serve_model

WRITES = Call("Write", {"file_path": "plan.md", "content": "# Plan\n"})
ONE = "agent: {id: a, backend: {type: gemini, model: a, permission_mode: strict}}\n"
TWO = """
agents:
  - {id: a, backend: {type: gemini, model: a, permission_mode: strict}}
  - {id: b, backend: {type: claude, model: b, permission_mode: strict}}
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModelServer]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [each for each in os.environ if each.startswith("XDG_")]:
        monkeypatch.delenv(name)
    with ExitStack() as servers:

        def made(**scripts: ScriptLike) -> ModelServer:
            server = servers.enter_context(serve_model(by_model(scripts)))
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.gemini)
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic)
            monkeypatch.setenv("GEMINI_API_KEY", "the-gemini-key")
            monkeypatch.setenv("ANTHROPIC_API_KEY", "the-anthropic-key")
            return server

        yield made


def run(*words: str, text: str = "") -> Result:
    return CliRunner().invoke(toolyard, ["run", *words], input=text)


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(models, tmp_path: Path) -> None:
    models(a=[WRITES, Say("The plan is in plan.md.")])
    Path("a.yaml").write_text(ONE)

    result = run("a.yaml", "Write a plan")

    assert (result.exit_code, result.stdout) == (0, "The plan is in plan.md.\n")
    assert "plan.md" in result.stderr
    assert "report.html" in result.stderr
    assert Path("toolyard_workspace/agents/a/workspace/plan.md").read_text() == "# Plan\n"


def test_the_task_may_come_from_stdin(models) -> None:
    server = models(a=Say("Fine."))
    Path("a.yaml").write_text(ONE)

    assert run("a.yaml", "-", text="A task from a file").exit_code == 0
    assert "A task from a file" in server.requests[0].user_texts[0]


def test_json_is_one_event_a_line_from_first_to_last(models) -> None:
    models(a=[WRITES, Say("Done.")])
    Path("a.yaml").write_text(ONE)

    result = run("a.yaml", "Do it", "--json")

    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert (events[0]["type"], events[-1]["type"]) == ("run_started", "run_finished")
    assert events[-1]["text"] == "Done."
    assert {"tool_called", "tool_returned", "files_changed", "used", "answered"} <= {each["type"] for each in events}


def test_file_operations_of_code_are_shown_and_every_one_is_an_event(models) -> None:
    code = "from servers.filesystem import write_file\nawait write_file(path='made.txt', content='by code')\n"
    Path("a.yaml").write_text(ONE + "toolyard: {execution_mode: filesystem_first}\n")
    script = [Call("execute_python", {"code": code}), Say("Done.")]

    models(a=script)
    shown = run("a.yaml", "Do it").stderr
    models(a=script)
    events = [json.loads(line) for line in run("a.yaml", "Do it", "--json").stdout.splitlines()]

    assert re.search(r"✎ code called write_file \S*made\.txt", shown)
    told = [(each["tool"], each["outcome"]) for each in events if each["type"] == "file_operation"]
    assert told == [("write_file", "ok"), ("execute_python", "ok")]


def test_apply_brings_the_winners_files_here(models) -> None:
    models(a=[WRITES, Say("Done.")])
    Path("a.yaml").write_text(ONE)

    Path("mine").mkdir()

    result = run("a.yaml", "Do it", "--apply", "mine")

    assert result.exit_code == 0
    assert Path("mine/plan.md").read_text() == "# Plan\n"
    assert "Copied into" in result.stderr
    assert "own state" in run("a.yaml", "Do it", "--apply", ".").stderr
    assert "is not a folder" in run("a.yaml", "Do it", "--apply", "nowhere").stderr


def test_no_answer_is_exit_code_1_and_says_why(models) -> None:
    models(a=Fail(400, message="bad thing", times=FOREVER))
    Path("a.yaml").write_text(ONE)

    result = run("a.yaml", "Do it")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "bad thing" in result.stderr


def test_a_limit_is_exit_code_124(models) -> None:
    models(a=Say("One."), b=Hang())
    Path("two.yaml").write_text(TWO)

    result = run("two.yaml", "Do it", "--timeout", "3")

    assert (result.exit_code, result.stdout) == (124, "One.\n")
    assert "The limit of 3 seconds was reached" in result.stderr


def test_wrong_use_is_exit_code_2_and_says_what_to_do(models, monkeypatch) -> None:
    models(a=Say("Fine."))
    Path("a.yaml").write_text(ONE)
    Path("typo.yaml").write_text("agents:\n  - id: a\n    backend: {type: gemni}\n")

    assert "Pass a task" in (no_task := run("a.yaml")).stderr
    assert "toolyard init" in (no_config := run()).stderr
    typo = run("typo.yaml", "Do it")
    assert "typo.yaml:3" in str(typo.exception)
    assert 'Did you mean "gemini"?' in str(typo.exception)
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL")
    keyless = run("a.yaml", "Do it")
    assert "GEMINI_API_KEY" in str(keyless.exception)
    assert [no_task.exit_code, no_config.exit_code] == [2, 2]
    assert not any(Path("home").rglob("run.sqlite3"))  # nothing is left of what did not begin


def test_rounds_can_be_chosen(models) -> None:
    models(a=[Say("One."), Say("VOTE: a")], b=[Say("Two."), Say("VOTE: a")])
    Path("two.yaml").write_text(TWO)

    result = run("two.yaml", "Do it", "--rounds", "1", "--json")

    finished = json.loads(result.stdout.splitlines()[-1])
    assert (finished["ended"], finished["rounds"]) == ("rounds", 1)


def test_check_explains_and_starts_nothing(models) -> None:
    server = models(a=Say("Fine."))
    Path("a.yaml").write_text(ONE)

    result = run("--check", "a.yaml")

    assert result.exit_code == 0
    assert "Gemini API" in result.stdout
    assert server.requests == []
    assert not Path("toolyard_workspace").exists()
    assert "price of a is unknown" in " ".join(run("--check", "a.yaml", "--max-cost", "1").stdout.split())


def test_filesystem_first_without_code_is_refused_with_the_way_out(models) -> None:
    models(a=Say("Fine."))
    Path("f.yaml").write_text(
        "massgen:\n  execution_mode: filesystem_first\n  code_execution: {enabled: false}\n" + ONE
    )

    refused = run("f.yaml", "Do it")

    assert "f.yaml:3" in str(refused.exception)
    assert "context_based" in str(refused.exception)


def test_interrupting_keeps_the_work_and_resuming_goes_on(models, tmp_path: Path) -> None:
    server = models(a=[WRITES, Hang(times=1), Say("Both of us are done.")])
    Path("a.yaml").write_text(ONE)
    program = subprocess.Popen(
        [sys.executable, "-m", "toolyard", "run", "a.yaml", "Do it", "--json"], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    deadline = time.monotonic() + 40
    while len(server.requests) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    events = [json.loads(line) for line in program.communicate(timeout=30)[0].splitlines()]
    assert program.returncode == 130
    assert events[-1]["ended"] == "interrupted"

    resumed = run("--resume", events[0]["run"])

    assert (resumed.exit_code, resumed.stdout) == (0, "Both of us are done.\n")
    assert [request.turn for request in server.requests] == [0, 1, 1]


def test_runs_are_listed_the_newest_first(models) -> None:
    models(a=[Say("Done.")])
    Path("a.yaml").write_text(ONE)
    assert "no runs yet" in run("--list").stderr
    for task in ("The first task", "The second task"):
        assert run("a.yaml", task).exit_code == 0

    listed = json.loads(run("--list", "--json").stdout)

    assert [each["task"] for each in listed] == ["The second task", "The first task"]
    assert [each["resumable"] for each in listed] == [False, False]
    lines = run("--list", "a.yaml").stdout.splitlines()
    assert "answered by a" in lines[0]
    assert run("--list", "other.yaml").stdout == ""


@pytest.mark.parametrize(
    ("ended", "winner", "shown"),
    [
        ("answered", "ana", "answered by ana"),
        ("consensus", "ana", "consensus for ana"),
        ("interrupted", "ana", "interrupted, best answer: ana"),
        ("time", "ana", "time, best answer: ana"),
        ("failed", "", "failed"),
        ("", "", "not ended"),
    ],
)
def test_only_an_answer_is_listed_as_made_by_an_agent(capsys, monkeypatch, ended, winner, shown) -> None:
    known = KnownRun("3f2a81bc", 0.0, "Do it", "/a.yaml", ended, winner, "", "/runs/3f2a81bc")
    monkeypatch.setattr("toolyard.cli.run.list.list_runs", lambda *_: [known])

    show_runs(None, "/state", wants_json=False)

    assert f"  {shown}  /a.yaml  Do it" in capsys.readouterr().out


def test_the_files_of_a_run_that_is_over_can_still_be_had(models) -> None:
    server = models(a=[WRITES, Say("Done.")])
    Path("a.yaml").write_text(ONE)
    Path("late").mkdir()
    assert run("a.yaml", "Do it").exit_code == 0
    (identity,) = [each["run"] for each in json.loads(run("--list", "--json").stdout)]
    asked = len(server.requests)

    result = run("--resume", identity, "--apply", "late")

    assert result.exit_code == 0
    assert Path("late/plan.md").read_text() == "# Plan\n"
    assert len(server.requests) == asked


def test_a_run_out_of_time_says_what_it_was_waiting_for(models) -> None:
    models(a=Fail(503, times=FOREVER))
    Path("a.yaml").write_text(ONE)

    result = run("a.yaml", "Do it", "--timeout", "2")

    assert result.exit_code == 1
    assert "a was waiting" in " ".join(result.stderr.split())


@pytest.mark.parametrize("option", ["--timeout", "--max-cost"])
@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "0"])
def test_a_limit_that_is_no_amount_is_refused(tmp_path: Path, option: str, amount: str) -> None:
    (tmp_path / "one.yaml").write_text(ONE)

    done = CliRunner().invoke(toolyard, ["run", str(tmp_path / "one.yaml"), "x", option, amount])

    assert done.exit_code == 2
    assert option in done.output

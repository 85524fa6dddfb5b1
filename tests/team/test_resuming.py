"""A run that was interrupted goes on where it was, and does nothing twice that was finished."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolyard.core.errors import ConfigError, ToolError
from toolyard.team.events import (
    AgentStarted,
    Answered,
    EndReason,
    FilesChanged,
    Notice,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from toolyard.team.paths import find_run
from toolyard.testing.mock_model import Call, Fail, Hang, Say, Turn, by_model, in_turns, serve_model

WRITES = Call("Write", {"file_path": "plan.md", "content": "# Plan\n"})


def stopped_when(team, agents: list[str], is_time) -> object:
    """Run until an event of which `is_time` is true, then stop as Ctrl-C does."""

    async def run() -> object:
        made = team.made(agents)
        hear = made._on_event

        def heard(event) -> None:
            hear(event)
            if is_time(event):
                made.stop()

        made._on_event = heard
        return await made.go()

    return asyncio.run(run())


def test_a_run_stopped_in_the_middle_of_a_round_goes_on_with_the_turn_that_is_missing(team_of) -> None:
    team = team_of(a=[WRITES, Call("Read", {"file_path": "plan.md"}), Say("The plan is written.")])
    first = stopped_when(team, ["a"], lambda event: isinstance(event, ToolReturned) and event.tool == "Write")
    assert (first.ended, first.has_answer) == (EndReason.INTERRUPTED, False)
    assert first.run in first.folder
    team.events.clear()

    finished = team.run(["a"], resume=first.run)

    assert (finished.run, finished.ended, finished.text) == (first.run, EndReason.ANSWERED, "The plan is written.")
    assert team.heard(RunStarted)[0].resumed
    assert team.heard(RunStarted)[0].task == "Do it."
    assert [each.tool for each in team.heard(ToolCalled)] == ["Read"]


def test_files_that_were_changed_before_are_told_again(team_of) -> None:
    team = team_of(a=[WRITES, Hang(times=1), Say("Done.")])
    first = stopped_when(team, ["a"], lambda event: isinstance(event, FilesChanged))
    team.events.clear()

    team.run(["a"], resume=first.run)

    assert team.heard(RunStarted)[0].changed == {"a": ("plan.md",)}


def test_what_was_answered_before_is_not_asked_again(team_of) -> None:
    team = team_of(a=[Say("One."), Say("VOTE: a")], b=[Hang(times=1), Say("Two."), Say("VOTE: a")])
    first = stopped_when(team, ["a", "b"], lambda event: isinstance(event, Answered))
    assert (first.ended, first.winner) == (EndReason.INTERRUPTED, "a")
    team.events.clear()

    finished = team.run(["a", "b"], resume=first.run)

    assert (finished.ended, finished.winner) == (EndReason.CONSENSUS, "a")
    assert [(each.agent, each.round) for each in team.heard(AgentStarted)][:1] == [("b", 1)]
    assert [each.agent for each in team.heard(Answered)] == ["b"]


def test_a_call_that_was_under_way_is_told_as_unknown_and_not_repeated_by_us(team_of) -> None:
    team = team_of(a=[Call("Bash", {"command": "touch done; sleep 30"}), Say("I looked.")])
    first = stopped_when(team, ["a"], lambda event: isinstance(event, ToolCalled))
    assert first.ended is EndReason.INTERRUPTED

    finished = team.run(["a"], resume=first.run)

    assert finished.text == "I looked."
    assert "It may have been carried out" in team.server.requests[-1].results[-1]
    (notice,) = team.heard(Notice)
    assert notice.text.endswith("Bash was under way, and may have been carried out. It was not run again.")


def test_of_each_call_of_a_turn_that_was_cut_off_it_is_said_whether_it_was_carried_out(team_of) -> None:
    calls = [
        Call("Write", {"file_path": "a.txt", "content": "one\n"}),
        Call("Bash", {"command": "sleep 30"}),
        Call("Write", {"file_path": "b.txt", "content": "two\n"}),
    ]
    team = team_of(a=[Turn(calls=tuple(calls)), Say("I looked.")])
    first = stopped_when(team, ["a"], lambda event: isinstance(event, ToolCalled) and event.tool == "Bash")
    assert first.ended is EndReason.INTERRUPTED
    team.events.clear()

    assert team.run(["a"], resume=first.run).text == "I looked."

    said = [notice.text for notice in team.heard(Notice)]
    assert [text.partition("the call of ")[2] for text in said] == [
        "Write was carried out, and its result was lost. It was not run again.",
        "Bash was under way, and may have been carried out. It was not run again.",
        "Write was not begun. It was not run again.",
    ]
    shown = team.server.requests[-1].results[-3:]
    for text, expected in zip(
        shown, ("It was carried out", "It may have been", "It was not carried out"), strict=True
    ):
        assert expected in text


def test_an_agent_that_failed_has_another_chance(team_of) -> None:
    team = team_of(a=[Fail(400, times=1), Say("Now it works.")])
    first = team.run(["a"])
    assert first.ended is EndReason.FAILED

    finished = team.run(["a"], resume=first.run)

    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "Now it works.")


def test_spent_tokens_and_time_are_counted_on(team_of) -> None:
    team = team_of(a=[WRITES, Call("LS", {"path": "."}), Say("Done.")])
    first = stopped_when(team, ["a"], lambda event: isinstance(event, ToolReturned))

    finished = team.run(["a"], resume=first.run)

    assert finished.spent.total > first.spent.total > 0
    assert finished.seconds > first.seconds


def test_a_run_that_a_limit_ended_goes_on_with_a_higher_one(team_of) -> None:
    team = team_of(a=[Call("LS", {"path": "."}), Call("LS", {"path": "."}), Say("Done.")])
    team.more = {"orchestrator": {"limits": {"tokens": 10}}}
    first = team.run(["a"])
    assert (first.ended, first.has_answer) == (EndReason.TOKENS, False)
    assert team.run(["a"], resume=first.run).ended is EndReason.TOKENS
    team.more = {}

    finished = team.run(["a"], resume=first.run)

    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "Done.")


def test_a_run_is_found_by_the_beginning_of_its_name(team_of) -> None:
    team = team_of(a=[Fail(400, times=1), Say("Fine.")])
    first = team.run(["a"])

    assert find_run(first.run[:6], team.settings().state_home) == first.folder
    with pytest.raises(ToolError, match="There is no run"):
        find_run("ffffffffffff", team.settings().state_home)


def test_other_agents_than_before_are_refused(team_of) -> None:
    team = team_of(a=Fail(400, times=1))
    first = team.run(["a"])

    with pytest.raises(ConfigError, match="was started with the agents a"):
        team.run(["a", "b"], resume=first.run)


PROGRAM = """
import asyncio, sys
from toolyard.config.loader import load_config
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun

run = TeamRun(RunOptions(load_config(sys.argv[1]), "Do it."), lambda event: None)
print(run.id, flush=True)
asyncio.run(run.go())
"""


def test_a_killed_process_loses_nothing_that_was_finished(tmp_path: Path, team_of) -> None:
    reached = threading.Event()
    turns = in_turns(WRITES, Call("Write", {"file_path": "second.md", "content": "2"}), Say("Both are written."))

    def script(request):
        if request.turn == 2 and not reached.is_set():
            reached.set()
            return Hang()
        return turns(request)

    with serve_model(by_model({"a": script})) as server:
        team = team_of()
        team.server = server
        settings = team.settings()
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": settings.home,
            **dict(settings.model_access),
        }
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(team.write(["a"]))], env=variables, stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        run = program.stdout.readline().strip()
        try:
            assert reached.wait(40)
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
            program.stdout.close()

        finished = team.run(["a"], resume=run)

    assert finished.text == "Both are written."
    assert [each.tool for each in team.heard(ToolCalled)] == []
    assert (team.workspace("a") / "second.md").read_text() == "2"

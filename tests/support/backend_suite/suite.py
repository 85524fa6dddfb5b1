"""What is true of an agent whichever backend it has: subclass it where a fixture `ran` runs scenarios.

class TestBackends(Backends): ...

@pytest.fixture(params=["gemini", ...])
def ran(request) -> Callable[[Scenario], Ran]: ...
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.backend_suite.scenarios import (
    ACCEPT_EDITS,
    BYPASS,
    FOLDER,
    KEPT,
    OUTSIDE,
    PEER,
    PLAN,
    STRICT,
    TEAM,
    WORKER,
    Ran,
    Scenario,
)
from toolyard.team.events import (
    AgentFailed,
    Answered,
    EndReason,
    FileOperated,
    FilesChanged,
    RunStarted,
    ToolCalled,
    ToolReturned,
    Used,
)

EIGHT = {"Read", "Write", "Edit", "MultiEdit", "Bash", "Grep", "Glob", "LS"}
SERVED = {*EIGHT, "NotebookEdit", "BashOutput", "KillShell"}
Runs = Callable[[Scenario], Ran]


class Backends:
    def test_the_same_tools_are_offered(self, ran: Runs) -> None:
        done = ran(STRICT)
        assert done.offered == SERVED
        (started,) = (event for event in done.events if isinstance(event, RunStarted))
        assert set(started.agents[0].tools) == SERVED

    def test_each_tool_does_its_work_in_the_folder_that_was_made_beside_the_configuration(self, ran: Runs) -> None:
        done = ran(STRICT)
        written, edited, twice, ran_there, read, found, globbed, listed, *_ = done.shown()
        assert done.text("a.txt") == done.text("deep", "b.txt") == "1\n2\n"
        assert "Created a.txt (2 lines, 8 bytes)." in written
        assert "Edited a.txt: 1 replacement." in edited
        assert "Edited a.txt: 1 replacement." in twice
        assert done.path(FOLDER) in ran_there
        assert "     1\t1\n     2\t2" in read
        assert all("b.txt" in text for text in (found, globbed))
        assert "deep" in listed

    def test_strict_refuses_what_is_outside_in_words_that_the_model_sees(self, ran: Runs) -> None:
        done = ran(STRICT)
        *_, read, written = done.shown()
        assert f"Reading /etc/passwd is outside the workspace {done.path(FOLDER)}" in read
        assert f"Writing {done.path(OUTSIDE)} is outside the workspace {done.path(FOLDER)}" in written
        assert "root:" not in read
        assert not os.path.exists(done.path(OUTSIDE))

    def test_a_run_is_told_with_its_calls_its_files_and_its_answer(self, ran: Runs) -> None:
        done = ran(STRICT)
        calls, results = done.heard(ToolCalled), done.heard(ToolReturned)
        assert [each.tool for each in calls] == [each.tool for each in results]
        assert {each.tool for each in calls} == EIGHT
        assert [each.ok for each in results] == [True] * 8 + [False] * 2
        assert (done.finished.ended, done.finished.text) == (EndReason.ANSWERED, "All is well.")
        assert [each.text for each in done.heard(Answered)] == ["All is well."]
        changed = {path for each in done.heard(FilesChanged) for path in each.paths}
        assert changed >= {"a.txt", "deep/b.txt"}
        assert done.finished.snapshot
        assert done.heard(Used)[-1].spent.total > 0

    def test_each_file_operation_is_an_event_with_its_outcome_and_paths(self, ran: Runs) -> None:
        done = ran(STRICT)
        operations = done.heard(FileOperated)
        assert {each.tool for each in operations} >= EIGHT  # some CLIs list resources too
        denied = [path for each in operations if each.outcome == "denied" for path in each.paths]
        assert denied == ["/etc/passwd", done.path(OUTSIDE)]
        written = next(each for each in operations if each.tool == "Write")
        assert (written.outcome, written.paths, written.changes_files) == ("ok", (done.path(FOLDER, "a.txt"),), True)
        assert written.snapshot

    def test_plan_reads_what_is_there_and_writes_nothing(self, ran: Runs) -> None:
        done = ran(PLAN)
        read, written = done.shown()
        assert KEPT[1].strip() in read
        assert done.backend.refused in written
        assert os.listdir(done.path(FOLDER)) == [KEPT[0]]
        assert done.text(KEPT[0]) == KEPT[1]
        assert done.finished.text == "This is the plan."

    def test_accept_edits_writes_unasked_and_keeps_the_files_that_are_there(self, ran: Runs) -> None:
        done = ran(ACCEPT_EDITS)
        assert done.text(KEPT[0]) == "kept and changed\n"
        assert done.text("a.txt") == "x"
        assert [each.ok for each in done.heard(ToolReturned)] == [True, True, False]
        assert not os.path.exists(done.path(OUTSIDE))

    def test_bypass_permissions_allows_what_is_outside(self, ran: Runs) -> None:
        done = ran(BYPASS)
        with open(done.path(OUTSIDE), encoding="utf-8") as file:
            assert file.read() == "wanted there\n"
        assert all("wanted there" in text for text in done.shown()[1:])
        assert [each.ok for each in done.heard(ToolReturned)] == [True] * 3

    def test_with_an_agent_of_another_backend_it_shares_files_and_agrees(self, ran: Runs) -> None:
        done = ran(TEAM)
        assert done.heard(AgentFailed) == []
        assert "made by the peer" in done.shown(2)[0]
        assert "made by the worker" in done.shown(2, PEER)[0]
        ended = done.finished
        assert (ended.ended, ended.winner, ended.rounds) == (EndReason.CONSENSUS, PEER, 2)
        assert (ended.text, ended.votes) == ("See theirs.txt.", {WORKER: PEER, PEER: PEER})
        assert sorted(os.listdir(done.path(FOLDER))) == ["mine.txt"]

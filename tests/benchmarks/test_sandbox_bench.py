from __future__ import annotations

import os
import sys

import pytest

from benchmarks.benchmark import Sizes
from benchmarks.lean_client import BenchFault
from benchmarks.sandbox import many_agents, suite, through_server
from benchmarks.sandbox.fixture import Subject, median_milliseconds
from tests.benchmarks.conftest import nothing_left
from toolyard.core.errors import SecurityError
from toolyard.sandbox.backends.bubblewrap import find_bubblewrap
from toolyard.testing.mcp_client import StdioClient

pytestmark = pytest.mark.slow  # they measure: small, but with real servers and sandboxes

TINY = Sizes(rounds=1, tree_files=4, calls=2, starts=1, loops=2)
needs_a_sandbox = pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")

# Says hello, then answers a Read with whatever the test put into ANSWER.
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
    elif message.get("method") == "tools/call":
        print(json.dumps(ANSWER), flush=True)
"""


def measured(settings, only):
    """The rows of one measure, each with a figure; nothing is left behind."""
    with nothing_left(settings):
        *rows, others = suite.run(TINY, settings, lambda _: None, {only}).rows
    assert others == suite.ELSEWHERE
    assert all(row.ours is not None and row.ours > 0 for row in rows), rows
    return rows


def targets(rows):
    return {row.name: row.target for row in rows}


@needs_a_sandbox
def test_warm_runs_are_measured_back_to_back_and_with_thinking_time(settings):
    rows = measured(settings, "warm")
    assert targets(rows) == {
        f"{title}, {how}": limit
        for title, limit in (
            ("warm 1+1", "≤ 3 ms"),
            ("1+1 in a kept session", "≤ 1 ms"),
            ("warm bash command (true)", "≤ 4 ms"),
        )
        for how in ("back to back", "20 ms between requests")
    }
    assert all(row.peer for row in rows)


@needs_a_sandbox
def test_a_cold_start_is_measured_beside_a_plain_python(settings):
    (row,) = measured(settings, "cold")
    assert (row.target, row.peer is not None) == ("≤ 2x", True)


@needs_a_sandbox
def test_the_whole_stack_is_measured_without_a_target(settings):
    assert targets(measured(settings, "calls")) == {
        "execute_python 1+1 over stdio": "",
        "execute_python 1+1 in a kept session over stdio": "",
        "Bash true over stdio": "",
    }


@needs_a_sandbox
def test_reads_are_measured_while_thirty_commands_run(settings):
    rows = measured(settings, "reads")
    assert targets(rows) == {
        f"Read while 30 commands run, {load}, p95": "≤ 100 ms" for load in ("printing and sleeping", "in a busy loop")
    }


@needs_a_sandbox
def test_eight_agents_are_measured_alone_and_together_on_two_cores(settings):
    rows = measured(settings, "agents")
    assert targets(rows) == {"8 agents at once, bash true": "≤ 2x", "8 agents at once, 1+1": "≤ 2x"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be fewer")
def test_fewer_cores_are_used_only_while_agents_are_measured(monkeypatch):
    monkeypatch.setattr("benchmarks.sandbox.many_agents._CORES", 1)
    before = os.sched_getaffinity(0)
    try:
        with many_agents._on_few_cores() as cores:
            assert (cores, len(os.sched_getaffinity(0))) == (1, 1)
        assert os.sched_getaffinity(0) == before
    finally:
        os.sched_setaffinity(0, before)


@needs_a_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user may not see these figures")
def test_the_memory_of_an_idle_agent_is_counted(settings):
    rows = measured(settings, "memory")
    assert targets(rows) == {"memory of an idle agent, alone": "≤ 25 MB", "memory of an idle agent, one of 8": ""}
    assert all(row.ours > 1 for row in rows)


def test_without_a_sandbox_nothing_is_measured_and_the_reason_is_told(settings, monkeypatch):
    def refused():
        raise SecurityError("No sandbox can be built on this machine.", hint="")

    monkeypatch.setattr("benchmarks.sandbox.suite.chosen", refused)
    row, others = suite.run(TINY, settings, lambda _: None).rows
    assert (row.ours, row.met, others) == (None, None, suite.ELSEWHERE)
    assert row.note.startswith("skipped: No sandbox can be built")


@needs_a_sandbox
def test_a_run_that_fails_never_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.sandbox.fixture.SUM", "1/0")
    monkeypatch.setattr("benchmarks.sandbox.fixture.COMMAND", "exit 3")
    with Subject(str(tmp_path)) as subject:
        for work in (subject.python, subject.session, subject.command):
            with pytest.raises(BenchFault, match="A run in the sandbox failed"):
                work()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"jsonrpc": "2.0", "id": 99, "result": {}}, "A command ended while files were read"),
        ({"jsonrpc": "2.0", "id": 2, "result": {"isError": True}}, "Read failed"),
        ({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}}, "Read failed"),
    ],
)
def test_a_read_counts_only_while_all_commands_run_and_it_succeeds(answer, fault):
    command = (sys.executable, "-c", f"ANSWER = {answer!r}\n{SERVER}")
    with StdioClient(command) as client, pytest.raises(BenchFault, match=fault):
        through_server._read(client, "/file")


@pytest.mark.parametrize(
    "result",
    [
        {"structuredContent": {"exit_code": 1, "value": "2"}},
        {"structuredContent": {"exit_code": 0, "value": "3"}},
        {"isError": True},
    ],
)
def test_a_call_that_fails_never_counts(result):
    answer = {"jsonrpc": "2.0", "id": 2, "result": result}
    command = (sys.executable, "-c", f"ANSWER = {answer!r}\n{SERVER}")
    with StdioClient(command) as client, pytest.raises(BenchFault, match="execute_python failed"):
        through_server._call(client, "execute_python", {"code": "1+1"})


def test_the_median_of_single_runs_leaves_an_outlier_and_the_thinking_time_out(monkeypatch):
    clock = iter([0.0, 0.001, 1.0, 1.002, 2.0, 2.9])
    slept = []
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("time.sleep", slept.append)
    assert median_milliseconds(lambda: None, 3, think=0.02)() == pytest.approx(2.0)
    assert slept == [0.02] * 3

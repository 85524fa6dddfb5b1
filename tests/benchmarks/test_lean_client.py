from __future__ import annotations

import sys

import pytest

from benchmarks.lean_client import BenchFault, Wire

# Answers each request with its own id; a tool called "broken" gets an error. `end` leaves without a word.
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    tool = message["params"].get("name")
    if tool == "end":
        break
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
    body = {"error": {"code": 1, "message": "no"}} if tool == "broken" else {"result": {"tool": tool}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
"""


@pytest.fixture
def wire():
    with Wire((sys.executable, "-c", SERVER)) as opened:
        yield opened


def test_calls_are_counted_one_at_a_time_and_in_flight(wire):
    assert wire.sequential("echo", [{}, {}]) > 0
    assert wire.in_flight("echo", [[{}, {}], [{}]]) > 0
    assert wire.request("tools/call", {"name": "x"})["result"] == {"tool": "x"}


def test_an_error_never_counts_as_a_call(wire):
    with pytest.raises(BenchFault, match="A call failed"):
        wire.sequential("broken", [{}])


def test_a_server_that_leaves_ends_the_measurement(wire):
    with pytest.raises(BenchFault, match="closed its output"):
        wire.sequential("end", [{}])

"""How long the calls of an agent CLI took: as our server measured them, else from the call to its result."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from toolyard.drivers.messages import ResultStatus, ToolCall, ToolResult
from toolyard.models.messages import ModelUsage
from toolyard.team.cli_worker import CliWorker
from toolyard.team.events import ToolReturned
from toolyard.team.store import AgentState


@pytest.mark.parametrize(("measured", "expected"), [(0.25, 0.25), (None, 3.5)])
def test_a_result_has_the_duration_of_its_call(monkeypatch, measured, expected) -> None:
    heard: list[object] = []
    store = SimpleNamespace(agent=lambda _: AgentState())
    worker = CliWorker(SimpleNamespace(id="a"), None, None, SimpleNamespace(emit=heard.append, store=store))
    clock = iter([10.0, 13.5, 13.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 13.5))

    calls: dict[str, tuple[str, float]] = {}
    for message in (ToolCall("1", "Bash", {}), ToolResult("1", ResultStatus.OK, "done", measured)):
        worker._forward_message(message, 1, calls, ModelUsage())

    returned = next(each for each in heard if isinstance(each, ToolReturned))
    assert (returned.tool, returned.seconds) == ("Bash", expected)

"""The messages of a run, written down as JSON and read again."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from toolyard.core.errors import ValidationError
from toolyard.drivers import messages
from toolyard.drivers.messages import (
    Fault,
    Finished,
    ImageData,
    ResultStatus,
    SessionStarted,
    Status,
    TextDelta,
    Tokens,
    ToolCall,
    ToolResult,
    Usage,
    as_json,
    from_json,
)

TOKENS = Tokens(3, 2, 1)
ALL = (
    SessionStarted("run", "gemini", "a-model", "a-session"),
    TextDelta("é\x00\n"),
    ToolCall("1", "Write", {"file_path": "a", "deep": [{"b": None}]}, ours=False),
    ToolResult(
        *("1", ResultStatus.FAILED, "no", 0.25),
        structured={"exit_code": 3},
        images=(ImageData("aGk=", "image/png"),),
    ),
    Usage(TOKENS, 0.5),
    Fault("it broke", "mend it", retryable=True),
    Finished(
        *(Status.TIMED_OUT, "why", "hint", "text"),
        attached=True,
        exit_code=-9,
        tokens=TOKENS,
        cost=0.5,
        seconds=2.5,
        changed=("a", "b/c"),
        snapshot="two",
        snapshot_before="one",
    ),
)


@pytest.mark.parametrize("message", ALL, ids=lambda message: message.type)
def test_every_message_comes_back_as_it_was(message):
    written = json.loads(json.dumps(as_json(message)))
    assert from_json(written) == message
    derived = {"ok"} if isinstance(message, ToolResult) else set()
    assert set(written) == {"type", *derived, *(field.name for field in fields(message))}
    assert from_json({**written, "a-key-of-a-newer-version": 1}) == message


def test_there_is_one_for_each_thing_that_happens():
    kinds = ("session_started", "text_delta", "tool_call", "tool_result", "usage", "error", "finished")
    assert tuple(message.type for message in ALL) == kinds
    assert set(messages._TYPES) == set(kinds)


def test_what_is_no_message_is_said_to_be_none():
    with pytest.raises(ValidationError, match="'nonsense' is none of session_started"):
        from_json({"type": "nonsense"})

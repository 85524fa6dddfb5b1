"""Words that a CLI leaves out go to the call they were said of, and to no other."""

from __future__ import annotations

import re

from toolyard.drivers.failures import Failures
from toolyard.drivers.messages import ToolCall, ToolResult

HIDDEN = ToolResult("1", ok=False, text="it failed")


def failures() -> Failures:
    return Failures(re.compile("^it failed$"))


def told(noted: Failures, call: ToolCall, result: ToolResult) -> str:
    assert noted.told(call, str) == call
    answer = noted.told(result, str)
    assert isinstance(answer, ToolResult)
    return answer.text


def test_words_are_told_once_and_of_the_call_they_were_said_of():
    noted = failures()
    noted.note("Read", {"b": 1, "a": "x"}, "no such file")
    assert told(noted, ToolCall("1", "Read", {"a": "y"}), HIDDEN) == "it failed"
    assert told(noted, ToolCall("1", "Write", {"a": "x", "b": 1}), HIDDEN) == "it failed"
    assert told(noted, ToolCall("1", "Read", {"a": "x", "b": 1}, ours=False), HIDDEN) == "it failed"
    assert told(noted, ToolCall("1", "Read", {"a": "x", "b": 1}), HIDDEN) == "no such file"
    assert told(noted, ToolCall("1", "Read", {"a": "x", "b": 1}), HIDDEN) == "it failed"


def test_what_the_cli_says_itself_stays():
    noted = failures()
    noted.note("Read", {}, "no such file")
    call = ToolCall("1", "Read", {})
    assert told(noted, call, ToolResult("1", ok=True, text="it failed")) == "it failed"
    assert told(noted, call, ToolResult("1", ok=False, text="denied by policy")) == "denied by policy"
    assert noted.told(HIDDEN, str) == HIDDEN  # of a call that nobody told of


def test_what_is_kept_has_an_end():
    noted = failures()
    for number in range(1000):
        noted.note("Read", {"n": number}, str(number))
        noted.told(ToolCall(str(number), "Read", {"n": number}), str)
    last = noted.told(ToolResult("999", ok=False, text="it failed"), str)
    assert last == ToolResult("999", ok=False, text="999")
    assert noted.told(ToolResult("0", ok=False, text="it failed"), str).text == "it failed"
    assert max(len(noted._said), len(noted._calls)) <= 64


def test_secrets_are_taken_out():
    noted = failures()
    noted.note("Read", {}, "the key k-1 opens nothing")
    noted.told(ToolCall("1", "Read", {}), str)
    assert noted.told(HIDDEN, lambda words: words.replace("k-1", "***")).text == "the key *** opens nothing"

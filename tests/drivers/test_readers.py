"""The output of each CLI, read: what is recorded is in `test_golden.py`, what is rare is here."""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.drivers.clis.json_access import error_message
from toolyard.drivers.messages import (
    Fault,
    Finished,
    ResultStatus,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    as_json,
    from_json,
)
from toolyard.drivers.registry import DRIVERS, driver_of

TOOLS = ("Read", "Write", "write_file")
RECORDINGS = pathlib.Path(__file__).with_name("recordings")


def read(cli: str, *records: dict):
    reader = driver_of(cli).reader("run", TOOLS)
    return [message for record in records for message in reader.read(record)], reader.state


def tool_use(call: str, name: str) -> dict:
    return {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": call, "name": name, "input": {}}]},
    }


def tool_result(call: str, words: object, **more: object) -> dict:
    block = {"type": "tool_result", "tool_use_id": call, "content": words, **more}
    return {"type": "user", "message": {"content": [block]}}


def piece(words: str) -> dict:
    delta = {"type": "text_delta", "text": words}
    return {"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": delta}}


def whole(words: str, **more: object) -> dict:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": words}], **more}}


def recorded(cli: str) -> list[dict]:
    lines = [line for path in RECORDINGS.rglob(f"{cli}-*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in dict.fromkeys(lines)]


def spoilt(record: object, at: list[int], nonsense: object) -> object:
    """The record with something else in one place, which the numbers lead to."""
    if not at or not isinstance(record, dict | list) or not record:
        return nonsense
    keys = list(record) if isinstance(record, dict) else list(range(len(record)))
    key, copy = keys[at[0] % len(keys)], record.copy()
    copy[key] = spoilt(record[key], at[1:], nonsense)
    return copy


nonsense = st.sampled_from(
    [None, True, -1, 10**30, 0.5, float("nan"), float("inf"), "", "\ud800", "{", '{"error": [', [], {}, [[]], [{}]]
)
places = st.lists(st.integers(0, 20), min_size=1, max_size=5)


@pytest.mark.parametrize("cli", DRIVERS)
@given(data=st.data())
def test_no_nonsense_makes_a_reader_fail_or_finish_a_run(cli, data):
    spoiling = st.builds(spoilt, st.sampled_from(recorded(cli)), places, nonsense)
    said = [each for each in data.draw(st.lists(spoiling, max_size=6)) if isinstance(each, dict)]

    messages, _ = read(cli, *said)

    assert not any(isinstance(each, Finished) for each in messages)
    for message in messages:
        json.dumps(as_json(message))
        assert from_json(as_json(message)).type == message.type


@pytest.mark.parametrize("cli", ["claude", "qwen"])
def test_text_that_comes_in_pieces_and_then_whole_is_told_once(cli):
    start = {"type": "stream_event", "event": {"type": "message_start"}}

    messages, heard = read(cli, start, piece("Do"), piece("ne."), whole("Done."), start, piece("A"), whole("A"))

    assert [each.text for each in messages] == ["Do", "ne.", "A"]
    assert "".join(heard.text) == "Done.A"


def test_text_that_only_comes_whole_is_told():
    messages, _ = read("claude", whole("Done."))

    assert messages == [TextDelta("Done.")]


@pytest.mark.parametrize("cli", ["claude", "qwen"])
def test_what_is_said_after_a_call_is_a_paragraph_of_its_own(cli):
    answer = tool_result("1", [{"type": "text", "text": "a"}, {"type": "image", "data": "x"}])

    messages, _ = read(cli, whole("First."), tool_use("1", "mcp__toolyard__Read"), answer, whole("Then."))

    assert messages == [
        TextDelta("First."),
        ToolCall("1", "Read", {}, ours=True),
        ToolResult("1", ResultStatus.OK, "a\n[image]"),
        TextDelta("\n\nThen."),
    ]


def test_a_server_that_claude_cannot_reach_is_noted():
    servers = [{"name": "toolyard", "status": "failed"}, {"name": "other", "status": "connected"}]

    messages, heard = read("claude", {"type": "system", "subtype": "init", "mcp_servers": servers})

    assert heard.lost_server
    assert isinstance(messages[-1], Fault)


def test_an_error_that_claude_came_over_is_forgotten():
    _, heard = read("claude", whole("API Error: 529", model="<synthetic>"), whole("Done."))

    assert heard.error == ""


def test_an_error_that_qwen_calls_a_success_is_an_error():
    end = {"type": "result", "subtype": "success", "is_error": False, "result": "[API Error: 401 wrong key]"}

    messages, heard = read("qwen", piece("[API Error: 401 wrong key]"), whole("[API Error: 401 wrong key]"), end)

    assert heard.error == "[API Error: 401 wrong key]"
    assert [type(each) for each in messages] == [Fault, Usage]
    assert heard.text == []


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        ("claude", "<tool_use_error>Error: No such tool available: Write</tool_use_error>"),
        ("qwen", 'Tool "Write" not found in registry.'),
    ],
)
def test_a_tool_of_ours_that_the_cli_does_not_know_is_noted(cli, words):
    _, heard = read(cli, tool_use("1", "Write"), tool_result("1", words, is_error=True))

    assert heard.unknown_tools == ["Write"]


REFUSALS_OF_OURS = (
    "Denied: /etc/passwd is outside the workspace.",
    "The permission mode `plan` requires approval, and nobody can be asked: rejected by policy.",
    "Tool calls of this kind were denied by policy; no such tool available here. Permission to use it: ask the user.",
)


def called(cli: str, words: str) -> list[dict]:
    """A call of our Read that ends in an error with these words."""
    if cli == "gemini":
        call = {"type": "tool_use", "tool_name": "mcp_toolyard_Read", "tool_id": "1"}
        return [call, {"type": "tool_result", "tool_id": "1", "status": "error", "output": words}]
    if cli == "codex":
        item = {"id": "1", "type": "mcp_tool_call", "server": "toolyard", "tool": "Read", "status": "failed"}
        return [{"type": "item.completed", "item": {**item, "error": {"message": words}}}]
    if cli == "opencode":
        part = {"tool": "toolyard_Read", "callID": "1", "state": {"status": "error", "error": words}}
        return [{"type": "tool_use", "part": part}]
    return [tool_use("1", "mcp__toolyard__Read"), tool_result("1", words, is_error=True)]


@pytest.mark.parametrize("cli", DRIVERS)
@pytest.mark.parametrize("words", REFUSALS_OF_OURS)
def test_a_tool_that_we_refused_is_one_that_came_through(cli, words):
    messages, heard = read(cli, *called(cli, words))

    assert messages == [ToolCall("1", "Read", {}, ours=True), ToolResult("1", ResultStatus.FAILED, words)]
    assert (heard.answered_calls, heard.refused_tools, heard.unknown_tools) == (1, [], [])


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        ("gemini", "Tool execution denied by policy."),
        ("gemini", 'Tool execution for "Read" requires user confirmation, which is not supported here.'),
        ("claude", "Claude requested permissions to use mcp__toolyard__Read, but you haven't granted it yet."),
        ("codex", "user cancelled MCP tool call"),
        ("qwen", 'Qwen Code requires permission to use "mcp__toolyard__Read", but that permission was declined.'),
        ("opencode", "The user rejected permission to use this specific tool call."),
    ],
)
def test_a_tool_that_the_cli_refused_is_noted(cli, words):
    _, heard = read(cli, *called(cli, words))

    assert (heard.answered_calls, heard.refused_tools) == (0, ["Read"])


def test_a_turn_that_gemini_stopped_is_an_error_though_it_says_success():
    stopped = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
    _, heard = read("gemini", stopped, {"type": "result", "status": "success", "stats": {}})
    assert heard.error == stopped["message"]

    said = {"type": "message", "role": "assistant", "content": "on it", "delta": True}
    _, heard = read("gemini", {"type": "error", "severity": "error", "message": "Invalid stream"}, said)
    assert heard.error == ""


def test_codex_that_tries_again_and_succeeds_has_no_error():
    trying = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}
    usage = {"input_tokens": 5, "cached_input_tokens": 2, "output_tokens": 1}

    messages, heard = read("codex", trying, {"type": "turn.completed", "usage": usage})

    assert isinstance(messages[0], Fault)
    assert messages[0].retryable
    assert heard.error == ""
    assert heard.is_over
    assert (heard.tokens.input, heard.tokens.cached, heard.tokens.output) == (5, 2, 1)


def test_what_codex_says_of_a_tool_that_failed_ends_where_its_data_begins():
    words = 'tool call failed\n\nCaused by:\n    Mcp error: -32001: it is outside. Use another.({"kind":"security"})'
    assert error_message({"message": words}) == words.partition("(")[0]


def test_a_command_that_codex_runs_itself_is_told_as_not_ours():
    item = {"id": "i", "type": "command_execution", "aggregated_output": "x", "status": "completed"}

    messages, heard = read("codex", {"type": "item.completed", "item": item})

    assert messages == [ToolCall("i", "command_execution", {}, ours=False), ToolResult("i", ResultStatus.OK, "x")]
    assert heard.answered_calls == 0


def test_opencode_is_over_only_when_its_last_step_is():
    step = {"type": "step_finish", "part": {"reason": "stop"}}

    assert read("opencode", {"type": "step_start"}, step)[1].is_over
    assert not read("opencode", step, {"type": "step_start"})[1].is_over
    assert not read("opencode", {"type": "step_finish", "part": {"reason": "tool-calls"}})[1].is_over


def test_an_error_of_opencode_is_told_in_the_words_of_the_provider():
    error = {"name": "APIError", "data": {"message": "Incorrect API key provided", "statusCode": 401}}

    messages, heard = read("opencode", {"type": "error", "error": error})

    assert heard.error == "Incorrect API key provided"
    assert isinstance(messages[0], Fault)
    assert "ANTHROPIC_API_KEY" in messages[0].hint


def test_a_tool_that_opencode_put_another_in_the_place_of_is_unknown():
    given = {
        "tool": "Write",
        "error": "Model tried to call unavailable tool 'Write'. Available tools: toolyard_Read.",
    }
    part = {"tool": "invalid", "callID": "1", "state": {"status": "completed", "input": given, "output": "x"}}

    messages, heard = read("opencode", {"type": "tool_use", "part": part})

    assert messages == [ToolCall("1", "Write", {}, ours=False), ToolResult("1", ResultStatus.REFUSED, given["error"])]
    assert heard.unknown_tools == ["Write"]

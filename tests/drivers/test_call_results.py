"""Results that our server recorded go into the message about the same call, and into no other."""

from __future__ import annotations

import base64

import pytest

from toolyard.core.calls import Image, Result, Text
from toolyard.core.errors import SecurityError, ToolError
from toolyard.drivers.call_results import CallResults
from toolyard.drivers.messages import ImageData, ResultStatus, ToolCall, ToolResult
from toolyard.drivers.output_parser import OutputParser
from toolyard.transports.mcp.error_results import failed_result

FAILED = ToolResult("1", ResultStatus.FAILED, "it failed")
DONE = ToolResult("1", ResultStatus.OK, "it is done")


def result(text: str, *, failed: bool = False, **structured: object) -> Result:
    return Result((Text(text),), structured, failed=failed)


def completed(results: CallResults, call: ToolCall, message: ToolResult) -> ToolResult:
    assert results.complete_message(call) == call
    answer = results.complete_message(message)
    assert isinstance(answer, ToolResult)
    return answer


def test_a_result_has_all_that_the_server_knows_of_it():
    results = CallResults()
    picture = Result((Text("a picture"), Image(b"\x89PNG", "image/png")), {"width": 3})
    results.record("Read", {"file_path": "a.png"}, picture, 0.25)

    answer = completed(results, ToolCall("1", "Read", {"file_path": "a.png"}), DONE)

    image = ImageData(base64.b64encode(b"\x89PNG").decode(), "image/png")
    assert answer == ToolResult("1", ResultStatus.OK, "a picture", 0.25, {"width": 3}, (image,))


def test_a_command_that_exits_with_3_failed_whatever_the_cli_makes_of_it():
    results = CallResults()
    results.record("Bash", {"command": "exit 3"}, result("Exit code 3", failed=True, exit_code=3), 0.5)

    answer = completed(results, ToolCall("1", "Bash", {"command": "exit 3"}), DONE)

    assert (answer.status, answer.exit_code, answer.text) == (ResultStatus.FAILED, 3, "Exit code 3")


@pytest.mark.parametrize(
    ("error", "status"),
    [(SecurityError("It is outside."), ResultStatus.REFUSED), (ToolError("No such file."), ResultStatus.FAILED)],
)
def test_what_the_policy_refused_differs_from_what_failed(error, status):
    results = CallResults()
    results.record("Read", {}, failed_result(error), 0.1)

    answer = completed(results, ToolCall("1", "Read", {}), FAILED)

    assert (answer.status, answer.text) == (status, str(error))
    assert answer.structured["error"]["message"] == error.message


def test_a_record_is_used_once_and_for_the_call_that_it_is_of():
    results = CallResults()
    results.record("Read", {"b": 1, "a": "x"}, result("no such file", failed=True), 0.1)
    assert completed(results, ToolCall("1", "Read", {"a": "y"}), FAILED) == FAILED
    assert completed(results, ToolCall("1", "Write", {"a": "x", "b": 1}), FAILED) == FAILED
    assert completed(results, ToolCall("1", "Read", {"a": "x", "b": 1}, ours=False), FAILED) == FAILED
    assert completed(results, ToolCall("1", "Read", {"a": "x", "b": 1}), FAILED).text == "no such file"
    assert completed(results, ToolCall("1", "Read", {"a": "x", "b": 1}), FAILED) == FAILED
    assert results.complete_message(DONE) == DONE  # of a call that the CLI did not report


def test_equal_calls_with_different_ends_keep_their_own():
    results = CallResults()
    results.record("Bash", {}, result("first", failed=True), 0.1)
    results.record("Bash", {}, result("second"), 0.2)

    assert completed(results, ToolCall("1", "Bash", {}), DONE).text == "second"
    assert completed(results, ToolCall("1", "Bash", {}), FAILED).text == "first"


def test_the_words_of_the_cli_stay_where_it_lost_or_refused_what_the_server_did():
    results = CallResults()
    lost = ToolResult("1", ResultStatus.FAILED, "timed out")
    refused = ToolResult("1", ResultStatus.REFUSED, "denied by policy")
    results.record("Read", {}, result("done", lines=1), 0.1)
    assert completed(results, ToolCall("1", "Read", {}), refused) == refused
    answer = completed(results, ToolCall("1", "Read", {}), lost)
    assert answer == ToolResult("1", ResultStatus.FAILED, "timed out", 0.1, {"lines": 1})


def test_what_is_recorded_is_bounded(monkeypatch):
    results = CallResults()
    for number in range(1000):
        results.record("Read", {"n": number}, result(str(number)), 0.1)
        results.complete_message(ToolCall(str(number), "Read", {"n": number}))
    assert results.complete_message(ToolResult("999", ResultStatus.OK)).text == "999"
    assert results.complete_message(ToolResult("0", ResultStatus.OK)).text == ""
    assert max(len(results._records), len(results._open_calls)) <= 64

    monkeypatch.setattr("toolyard.drivers.call_results._MAX_BYTES", 10)
    results.record("Read", {}, Result((Image(b"12345678", "image/png"),), {}), 0.1)
    results.record("Read", {}, Result((Image(b"12345678", "image/png"),), {}), 0.1)
    assert len(results._records) == 1


def test_secrets_of_the_run_are_masked_and_do_not_hide_the_call():
    results = CallResults()
    results.output_parser = OutputParser(("k-12345678",))
    results.record("Read", {"key": "k-12345678"}, result("k-12345678 fits", found=["k-12345678"]), 0.1)

    answer = completed(results, ToolCall("1", "Read", {"key": "***"}), DONE)

    assert (answer.text, answer.structured) == ("*** fits", {"found": ["***"]})

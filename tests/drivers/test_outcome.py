"""How a run ended, from what was seen of it; the recorded ones are in `test_golden.py`."""

from __future__ import annotations

import pytest

from toolyard.drivers.driver import OutputState
from toolyard.drivers.messages import Status
from toolyard.drivers.outcome import EndCause, Verdict, run_verdict
from toolyard.drivers.registry import driver_of

GEMINI = driver_of("gemini")


def judged(heard: OutputState | None = None, exit_code: int | None = 0, **facts) -> Verdict:
    return run_verdict(GEMINI, heard or OutputState(is_over=True), exit_code, **{"attached": True, **facts})


def test_success_needs_nothing_to_speak_against_it():
    assert judged() == Verdict(Status.SUCCEEDED, "", "")


@pytest.mark.parametrize(
    ("ending", "status"), [(EndCause.CANCELLED, Status.CANCELLED), (EndCause.TIMED_OUT, Status.TIMED_OUT)]
)
@pytest.mark.parametrize("exit_code", [0, 1, -15, None])
def test_a_run_that_we_ended_is_told_as_that_whatever_else_is_true(ending, status, exit_code):
    heard = OutputState(is_over=True, error="401", open_calls={"1": "Read"})

    assert judged(heard, exit_code, cause=ending, attached=False).status is status


def test_a_run_that_waited_for_its_provider_until_it_was_ended_says_what_for():
    found = judged(
        OutputState(), None, cause=EndCause.TIMED_OUT, output_tail="ApiError: quota exceeded\n  status: 429\n}\n"
    )

    assert "rate limit or quota" in found.hint


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ("[API Error: 400 API key not valid]", "Set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("401 Unauthorized", "Set GEMINI_API_KEY"),
        ("403 denied", "Set GEMINI_API_KEY"),
        ("Not logged in. Please run /login", "Set GEMINI_API_KEY"),
        ("429 Too Many Requests", "Try again later"),
        ("RESOURCE_EXHAUSTED", "Try again later"),
        ("The model `gemini-9` does not exist", "Name a model"),
        ("404 models/gemini-9 is not found", "Name a model"),
        ("503 Service Unavailable", "internal error"),
        ("We're currently experiencing high demand", "internal error"),
        ("fetch failed: ECONNREFUSED 127.0.0.1:1", "could not be reached"),
        ("stream disconnected before completion", "could not be reached"),
        ("prompt is too long: 300000 tokens", "too long for one run"),
        ("400 Bad Request", "refused the request"),
    ],
)
def test_an_error_of_the_provider_comes_with_what_to_do_about_it(error, hint):
    found = judged(OutputState(is_over=True, error=error), 1)

    assert found.status is Status.FAILED
    assert found.reason == f"Gemini CLI reports: {error}"
    assert hint in found.hint


def test_an_error_counts_before_the_tools_that_were_missing_too():
    assert judged(OutputState(is_over=True, error="401"), attached=False).status is Status.FAILED


@pytest.mark.parametrize(
    "facts", [{"heard": OutputState(lost_server=True)}, {"output_tail": "required MCP servers failed: toolyard"}]
)
def test_a_cli_that_gave_up_because_it_could_not_reach_us_did_not_attach(facts):
    assert judged(**{"heard": OutputState(), **facts}, exit_code=1, attached=False).status is Status.NOT_ATTACHED


def test_a_cli_that_gave_up_for_another_reason_before_it_attached_failed():
    found = judged(OutputState(), 1, attached=False, output_tail="error: unknown option '--policy'\n")

    assert found.status is Status.FAILED
    assert (
        found.reason == "Gemini CLI exited with 1 before it attached to our tools: error: unknown option '--policy'"
    )


@pytest.mark.parametrize(
    ("exit_code", "name"), [(-9, "SIGKILL"), (143, "SIGTERM"), (-64, "SIGRTMAX"), (-70, "signal 70")]
)
def test_a_signal_is_named(exit_code, name):
    assert f"was ended by {name}." in judged(OutputState(is_over=True), exit_code).reason


def test_a_code_above_128_that_is_no_signal_is_told_as_it_is():
    assert judged(OutputState(is_over=True), 144).reason == "Gemini CLI exited with 144."


def test_a_call_without_an_answer_fails_even_a_run_that_says_it_is_done():
    found = judged(OutputState(is_over=True, open_calls={"1": "Write", "2": "Read", "3": "Read"}))

    assert found.status is Status.FAILED
    assert "Read, Write" in found.reason


def test_silence_is_no_success():
    found = judged(
        OutputState(), output_tail="Ripgrep is not available. Falling back to GrepTool.\nboom\n    at x.js:1\n}\n"
    )

    assert found.reason == "Gemini CLI ended without reporting that it was done."
    assert found.hint == "Last output: boom"


def test_a_tool_the_model_named_wrongly_once_is_no_failure_where_calls_came_through():
    assert judged(OutputState(is_over=True, unknown_tools=["Read"], answered_calls=1)).status is Status.SUCCEEDED
    assert judged(OutputState(is_over=True, unknown_tools=["Read"])).status is Status.FAILED


def test_reasons_have_an_end():
    assert len(judged(OutputState(error="x" * 10_000), 1).reason) <= 500


def test_who_asks_for_more_than_codex_takes_is_told_another_way():
    said = "Error: turn/start failed: Input exceeds the maximum length of 1048576 characters. (code -32602)"
    found = run_verdict(driver_of("codex"), OutputState(), 1, attached=True, output_tail=said)

    assert found.hint == "Put the prompt into a file of the workspace, and name that file."


def test_who_may_not_use_our_server_is_told_whose_settings_say_so():
    said = "You cannot use --strict-mcp-config when an enterprise MCP config is present"
    found = run_verdict(driver_of("claude"), OutputState(), 1, attached=False, output_tail=said)

    assert (found.status, said in found.reason) == (Status.FAILED, True)
    assert found.hint.startswith("Machine-wide settings of Claude Code")

"""Questions of the policy, put to the client: in the middle of the call, or as the call's result."""

from __future__ import annotations

import os

import pytest

from toolyard.core.events import CallOutcome
from toolyard.testing.mcp_client import expect_error, expect_result

CAN_ANSWER = {"elicitation": {"form": {}}}
WRITE = {"name": "Write", "arguments": {"file_path": "a.txt", "content": "written"}}
YES = {"action": "accept", "content": {"allow": True}}
NOT_YES = [
    {"action": "accept", "content": {"allow": False}},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": {"allow": "true"}},
    {"action": "decline"},
    {"action": "cancel"},
]


def outcomes(place):
    return [(event.tool, event.decision, event.outcome) for event in place.events()]


@pytest.fixture
def asking(place):
    """A server that asks before it writes, in the given era."""

    def start(*, modern=False, answers=None, capabilities=CAN_ANSWER):
        return place.stdio("--permission-mode", "default", modern=modern, answers=answers, capabilities=capabilities)

    return start


# Before 2026-07-28: elicitation.


def test_a_yes_lets_the_call_through_and_the_question_says_what_is_asked(place, asking):
    asked = []

    def answers(params):
        asked.append(params)
        return {"result": YES}

    with asking(answers=answers) as client:
        assert expect_result(client.call("Write", **WRITE["arguments"]))
    assert place.read("a.txt") == "written"
    (question,) = asked
    assert question["message"].endswith("Allow Write to do this?")
    assert f"{place.workspace}/a.txt" in question["message"]
    assert question["requestedSchema"]["required"] == ["allow"]
    assert outcomes(place) == [("Write", "ask", CallOutcome.OK)]


def test_anything_but_a_yes_is_a_no_and_nothing_is_written(place, asking):
    left = iter(NOT_YES)
    with asking(answers=lambda params: {"result": next(left)}) as client:
        codes = [expect_error(client.call("Write", **WRITE["arguments"]))["code"] for _ in NOT_YES]
    assert codes == [-32001] * len(NOT_YES)
    assert os.listdir(place.workspace) == []
    assert outcomes(place) == [("Write", "ask", CallOutcome.DENIED)] * len(NOT_YES)


def test_a_client_that_breaks_its_promise_to_answer_has_said_no(place, asking):
    refusal = {"error": {"code": -32601, "message": "not here"}}
    with asking(answers=lambda params: refusal) as client:
        assert expect_error(client.call("Write", **WRITE["arguments"]))["code"] == -32001
    assert outcomes(place) == [("Write", "ask", CallOutcome.DENIED)]


def test_a_client_that_cannot_answer_is_not_asked(place, asking, modern):
    with asking(modern=modern, capabilities={}) as client:
        assert expect_error(client.call("Write", **WRITE["arguments"]))["code"] == -32001
    assert outcomes(place) == [("Write", "ask", CallOutcome.DENIED)]


def test_what_needs_no_answer_is_not_asked_about(place, asking, modern):
    place.write("a.txt", "x")
    with asking(modern=modern) as client:
        assert expect_result(client.call("Read", file_path="a.txt"))


# From 2026-07-28: input_required.


def put_question(client, params=WRITE):
    result = client.request("tools/call", params)["result"]
    assert result["resultType"] == "input_required"
    ((key, question),) = result["inputRequests"].items()
    return key, question, result["requestState"]


def answered(params, key, answer, state):
    return {**params, "inputResponses": {key: answer}, "requestState": state}


def test_the_call_comes_back_with_a_yes_and_goes_through(place, asking):
    with asking(modern=True) as client:
        key, question, state = put_question(client)
        assert question["method"] == "elicitation/create"
        assert f"{place.workspace}/a.txt" in question["params"]["message"]
        with pytest.raises(FileNotFoundError):
            place.read("a.txt")
        assert "content" in client.request("tools/call", answered(WRITE, key, YES, state))["result"]
    assert place.read("a.txt") == "written"
    assert outcomes(place) == [("Write", "ask", CallOutcome.ASKED), ("Write", "ask", CallOutcome.OK)]


def test_the_call_comes_back_with_anything_else_and_is_refused(place, asking):
    codes = []
    with asking(modern=True) as client:
        for answer in NOT_YES:
            key, _, state = put_question(client)
            codes.append(expect_error(client.request("tools/call", answered(WRITE, key, answer, state)))["code"])
    assert codes == [-32001] * len(NOT_YES)
    assert os.listdir(place.workspace) == []
    assert outcomes(place) == [("Write", "ask", CallOutcome.ASKED), ("Write", "ask", CallOutcome.DENIED)] * len(
        NOT_YES
    )


def test_a_forged_state_is_refused_and_nothing_is_written(place, asking):
    with asking(modern=True) as client:
        key, _, state = put_question(client)
        changed = state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")
        forged = [changed, f'{{"asked": null, "approved": ["{key}"]}}', "v1.AAAA", ""]
        answers = [client.request("tools/call", answered(WRITE, key, YES, state)) for state in forged]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32602] * len(forged)
    assert os.listdir(place.workspace) == []


def test_a_state_approves_no_other_call(place, asking):
    other = {"name": "Write", "arguments": {"file_path": "b.txt", "content": "written"}}
    with asking(modern=True) as client:
        key, _, state = put_question(client)
        assert client.request("tools/call", answered(other, key, YES, state))["error"]["code"] == -32602
    with pytest.raises(FileNotFoundError):
        place.read("b.txt")


def test_a_state_of_another_server_is_worth_nothing(place, asking):
    with asking(modern=True) as first:
        key, _, state = put_question(first)
    with asking(modern=True) as second:
        assert second.request("tools/call", answered(WRITE, key, YES, state))["error"]["code"] == -32602


def test_an_answer_to_a_question_nobody_asked_counts_for_nothing(place, asking):
    with asking(modern=True) as client:
        key, _, _ = put_question(client)
        again = client.request("tools/call", {**WRITE, "inputResponses": {key: YES}})["result"]
        assert again["resultType"] == "input_required"
    with pytest.raises(FileNotFoundError):
        place.read("a.txt")


def test_an_answer_under_another_name_leaves_the_question_open(place, asking):
    with asking(modern=True) as client:
        _, _, state = put_question(client)
        again = client.request("tools/call", answered(WRITE, "allow-something-else", YES, state))["result"]
        assert again["resultType"] == "input_required"
    with pytest.raises(FileNotFoundError):
        place.read("a.txt")


def test_a_question_is_put_over_http_too(place, talk):
    with place.http("--permission-mode", "default") as server:
        session = talk(server, modern=True, capabilities=CAN_ANSWER)
        asked = session.send("tools/call", WRITE).message["result"]
        ((key, _),) = asked["inputRequests"].items()
        done = session.send("tools/call", answered(WRITE, key, YES, asked["requestState"])).message
    assert expect_result(done)
    assert place.read("a.txt") == "written"

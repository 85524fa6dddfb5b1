"""When the model fails: bounded tries, errors that say what to do, and nobody else held up."""

import json
import time

import pytest

from tests.support.assistant_process import MODELS, fields_of
from toolyard.testing.mcp_client import error_in
from toolyard.testing.mock_model import FOREVER, Cut, Empty, Fail, Hang, Nonsense, Say

# What each SDK makes of a fault is held by the tests of models; here it is how the way back to the client goes.
APIS = ["gemini", *(pytest.param(api, marks=pytest.mark.slow) for api in MODELS if api != "gemini")]
KEY = "sk-a-key-that-nobody-may-see-1234567890"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", [Fail(429, retry_after=0.05), Fail(500), Cut(), Nonsense(), Empty()], ids=repr)
def test_what_passes_is_tried_again(serve, api, fault):
    served = serve([fault, Say("In the end.")], api=api)

    assert served.ask("chat", prompt="How?")["content"] == "In the end."
    assert len(served.model.requests) == 2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_it_is_tried_three_times_and_the_status_is_told(serve, api, status):
    served = serve([Fail(status, times=FOREVER)], api=api)

    fault = served.fault("chat", prompt="How?")

    assert fault["code"] == -32603
    assert fault["data"]["provider_status"] == status
    assert fault["data"]["retryable"] is True
    assert fault["data"]["hint"]
    assert len(served.model.requests) == 3


def test_what_does_not_pass_is_not_tried_again(serve):
    served = serve([Fail(400, times=FOREVER)])

    assert served.fault("chat", prompt="How?")["data"]["provider_status"] == 400
    assert len(served.model.requests) == 1


def test_a_provider_that_wants_a_longer_wait_than_there_is_time_is_not_waited_for(serve):
    served = serve([Fail(429, retry_after=3_600, times=FOREVER)])
    began = time.monotonic()

    fault = served.fault("chat", prompt="How?")

    assert time.monotonic() - began < 20
    assert fault["data"]["provider_status"] == 429
    assert len(served.model.requests) == 1


@pytest.mark.parametrize("api", APIS)
def test_no_key_is_in_any_message_or_log(fresh, api, tmp_path):
    served = fresh([Fail(400, message=f"bad key {KEY} given", times=FOREVER)], api=api, key=KEY)

    fault = served.fault("chat", prompt="How?")

    assert KEY not in str(fault)
    assert "***" in fault["message"]
    served.close()
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert kept == []


def test_a_refused_key_is_told_with_the_variable_to_set(fresh):
    served = fresh(Say("yes"), key=KEY, GEMINI_API_KEY="another-key-entirely")

    fault = served.fault("chat", prompt="How?")

    assert fault["code"] == -32603
    assert fault["data"]["provider_status"] == 401
    assert "GEMINI_API_KEY" in fault["message"]


def test_a_model_that_hangs_holds_up_nobody_else(serve):
    served = serve(lambda request: Hang() if "hang" in request.user_texts[-1] else Say("quick"))
    hanging = served.post_call("chat", prompt="hang")
    served.model.wait_for(lambda model: model.hanging_requests == 1)

    began = time.monotonic()
    assert served.ask("chat", prompt="quick")["content"] == "quick"
    assert served.request("ping")["result"] == {}
    assert time.monotonic() - began < 5

    served.notify("notifications/cancelled", {"requestId": hanging})
    served.model.wait_for(lambda model: model.hanging_requests == 0)


@pytest.mark.parametrize("api", APIS)
def test_cancelling_takes_the_request_back_from_the_provider(serve, api):
    served = serve(Hang(times=FOREVER), api=api)
    posted = served.post_call("chat", prompt="How?")
    served.model.wait_for(lambda model: model.hanging_requests == 1)

    served.notify("notifications/cancelled", {"requestId": posted})

    served.model.wait_for(lambda model: model.hanging_requests == 0, seconds=5)


def test_a_request_has_its_time(fresh):
    served = fresh(Hang(times=FOREVER), config={"limits": {"seconds": 1}})

    fault = served.fault("chat", prompt="How?")

    assert fault["code"] == -32603
    assert "1 second" in fault["message"]
    served.model.wait_for(lambda model: model.hanging_requests == 0, seconds=5)


def test_who_waits_hears_how_it_goes(serve):
    served = serve([Hang(), Say("late")])
    posted = served.post_call("chat", prompt="How?")
    message = served.receive()
    served.model.release()

    assert fields_of(served.wait_for_response(posted))["content"] == "late"
    assert MODELS["gemini"] in message["params"]["message"]


def test_a_session_of_one_client_outlives_many_failures(fresh):
    served = fresh(
        lambda request: Fail(400) if "no" in request.user_texts[-1] else Say("yes"),
        config={"rate_limits": {"chat": None}},
    )
    for _ in range(20):
        served.fault("chat", prompt="no")
    assert served.ask("chat", prompt="please")["content"] == "yes"


def test_a_key_that_the_model_repeats_is_in_no_field_and_no_thread(fresh, project, tmp_path):
    (project / "a.py").write_text("x = 1\n")
    findings = [{"severity": "high", "file": "a.py", "line": 1, "title": f"it is {KEY}", "fix": KEY}, {"title": KEY}]
    served = fresh(Say(json.dumps({"summary": KEY, "findings": findings})), key=KEY)

    answered = served.call("codereview", files=["a.py"], context="x")

    thread = answered["result"]["structuredContent"]["continuation_id"]
    assert KEY not in json.dumps(answered)
    assert KEY not in json.dumps(served.request("resources/read", {"uri": f"thread://{thread}/1"}))
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(("options", "is_result"), [((), False), (("--errors", "result"), True)])
def test_errors_are_json_rpc_errors_unless_results_are_chosen(fresh, options, is_result):
    served = fresh([Fail(400, times=FOREVER)], *options)
    answers = [served.call("chat", prompt="How?"), served.call("chat", prompt=7)]
    errors = [error_in(answer) for answer in answers]
    assert [("result" in answer, error and error["code"]) for answer, error in zip(answers, errors, strict=True)] == [
        (is_result, -32603),
        (is_result, -32602),
    ]
    assert errors[0] is not None
    assert errors[0]["data"]["provider_status"] == 400

"""Rate limits for each client and tool."""

from toolyard.testing.mock_model import Say


def test_a_tool_is_called_as_often_as_its_rate_says(fresh):
    served = fresh(Say("yes"), config={"rate_limits": {"chat": "2/hour"}})
    served.ask("chat", prompt="1")
    served.ask("chat", prompt="2")

    fault = served.fault("chat", prompt="3")

    assert fault["code"] == -32603
    assert fault["data"]["retryable"] is True
    assert 0 < fault["data"]["retry_after"] <= 1_800
    assert len(served.model.requests) == 2
    assert served.ask("thinkdeep", current_analysis="another tool")["content"] == "yes"


def test_without_a_word_about_it_the_usual_rates_hold(fresh):
    served = fresh(Say("yes"), config={})
    for number in range(3):
        served.ask("thinkdeep", current_analysis=str(number))

    assert "3/minute" in served.fault("thinkdeep", current_analysis="4")["message"]


def test_wrong_arguments_cost_no_call(fresh):
    served = fresh(Say("yes"), config={"rate_limits": {"chat": "1/hour"}})
    served.fault("chat")

    assert served.ask("chat", prompt="x")["content"] == "yes"

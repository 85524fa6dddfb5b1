"""Many at once: calls run side by side, and the server answers others meanwhile."""

import time

from tests.support.assistant_process import fields_of
from toolyard.testing.mock_model import Say, Turn


def test_four_calls_to_a_slow_model_run_side_by_side_and_pings_are_answered(serve):
    served = serve(lambda request: Turn("slow", delay=1.0) if "slow" in request.user_texts[-1] else Say("warm"))
    served.ask("chat", prompt="warm")

    began = time.monotonic()
    posted = [served.post_call("chat", prompt=f"slow {number}") for number in range(4)]
    served.model.wait_for(lambda model: len(model.requests) == 5)
    pings = []
    for _ in range(5):
        at = time.monotonic()
        served.request("ping")
        pings.append(time.monotonic() - at)
    assert [fields_of(each)["content"] for each in served.answers(posted)] == ["slow"] * 4

    assert max(pings) < 0.5, "`toolyard bench assistant` measures it"
    assert time.monotonic() - began < 3, "one after another they take four seconds and more"

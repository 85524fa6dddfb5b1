"""Threads that last: across tools, turns, servers and kills."""

import itertools
import json
import signal

import pytest

from tests.support.assistant_process import fields_of
from toolyard.testing.mock_model import Say

TURNS = 30


def test_a_thread_goes_on_in_another_tool(serve, project):
    (project / "a.py").write_text("def total(items):\n    return sum(items)\n")
    served = serve(Say('{"summary": "fine", "findings": []}'))
    thread = served.ask("codereview", files=["a.py"], context="sums")["continuation_id"]

    served.ask("chat", prompt="And the tests?", continuation_id=thread)
    served.ask("analyze", files=["a.py"], question="Who calls it?", continuation_id=thread)
    served.ask("thinkdeep", current_analysis="It sums.", continuation_id=thread)

    asked = served.model.requests[-1]
    assert len(asked.user_texts) == 4
    assert "sums" in asked.user_texts[0]
    assert "And the tests?" in asked.user_texts[1]
    assert "JSON" not in asked.user_texts[0], "the shape of an answer is wanted once"


def test_a_killed_server_has_lost_nothing_of_a_thread(fresh):
    first = fresh([Say("One."), Say("Two."), Say("Three.")])
    thread = first.ask("chat", prompt="first")["continuation_id"]
    first.ask("chat", prompt="second", continuation_id=thread)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(10)

    second = fresh([Say("One."), Say("Two."), Say("Three.")])
    fields = second.ask("chat", prompt="third", continuation_id=thread)

    assert fields["content"] == "Three."
    assert second.model.requests[-1].user_texts == ("first", "second", "third")


def test_a_turn_that_failed_is_not_part_of_the_thread(serve):
    from toolyard.testing.mock_model import Fail, Say

    served = serve([Say("One."), Fail(400), Say("Two.")])
    thread = served.ask("chat", prompt="first")["continuation_id"]

    served.fault("chat", prompt="second", continuation_id=thread)
    served.ask("chat", prompt="third", continuation_id=thread)

    assert served.model.requests[-1].user_texts == ("first", "third")


def test_the_prompt_grows_by_one_turn_with_each_turn(serve, project):
    (project / "a.py").write_text("x = 1\n" * 50)
    served = serve(lambda request: Say("An answer of always the same length."))
    thread = served.ask("analyze", files=["a.py"], question="What is it? " * 10)["continuation_id"]

    for _ in range(9):
        thread = served.ask("chat", prompt="And what else, please? " * 10, continuation_id=thread)["continuation_id"]

    sizes = [len(json.dumps(request.body)) for request in served.model.requests[1:]]
    steps = {later - earlier for earlier, later in itertools.pairwise(sizes)}
    assert max(steps) - min(steps) <= 4, sizes


def test_interleaved_threads_never_see_each_other(fresh):
    served = fresh(lambda request: Say(f"I heard {request.user_texts[-1]}"), config={"rate_limits": {"chat": None}})
    threads = {}
    for turn in range(2):
        posted = []
        for number in range(50):
            more = {"continuation_id": threads[number]} if turn else {}
            posted.append(served.post_call("chat", prompt=f"canary-{number:03}-{turn}", **more))
        for number, answered in enumerate(served.answers(posted)):
            threads[number] = fields_of(answered)["continuation_id"]

    assert len(set(threads.values())) == 50
    for request in served.model.requests:
        whole = json.dumps(request.body)
        own = request.user_texts[-1].split("-")[1]
        assert {part[:3] for part in whole.split("canary-")[1:]} == {own}


def test_calls_within_one_thread_are_ordered(fresh):
    served = fresh(lambda request: Say(f"answer {len(request.user_texts)}"), config={"rate_limits": {"chat": None}})
    thread = served.ask("chat", prompt="0")["continuation_id"]

    posted = [served.post_call("chat", prompt=str(number), continuation_id=thread) for number in range(1, 6)]
    served.answers(posted)

    assert served.model.requests[-1].user_texts == tuple(str(number) for number in range(6))


def test_unknown_full_and_expired_threads_are_three_errors(fresh):
    served = fresh(Say("yes"), config={"thread_turns": 1, "thread_days": 1e-5, "rate_limits": {"chat": None}})
    unknown = served.fault("chat", prompt="x", continuation_id="0" * 32)
    full_id = served.ask("chat", prompt="x")["continuation_id"]
    full = served.fault("chat", prompt="x", continuation_id=full_id)
    expired = full
    while expired["data"]["reason"] == "full_thread":
        expired = served.fault("chat", prompt="x", continuation_id=full_id)

    assert [each["data"]["reason"] for each in (unknown, full, expired)] == [
        *("unknown_thread", "full_thread", "expired_thread"),
    ]
    assert {each["code"] for each in (unknown, full, expired)} == {-32602}
    assert len({each["message"] for each in (unknown, full, expired)}) == 3


@pytest.mark.parametrize("thread", ["", "../../etc/passwd", "x" * 10_000, "%00", "0" * 31])
def test_what_is_no_id_of_a_thread_is_unknown(serve, thread):
    assert serve(Say("yes")).fault("chat", prompt="x", continuation_id=thread)["data"]["reason"] == "unknown_thread"

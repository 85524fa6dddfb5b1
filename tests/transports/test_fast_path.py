"""Plain calls on stdio go past the SDK. The lane keeps its promises: what is answered, how, and what is not."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal

import pytest

from toolyard.core.events import CallOutcome
from toolyard.testing.mcp_client import error_in, expect_result

CAN_ANSWER = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"allow": True}}
NO = {"action": "decline"}
ENDLESS_BYTES = 1 << 38
PATIENCE_SECONDS = 20.0
STOP_SECONDS = 6.0


@pytest.fixture
def lane(place):
    """A client whose plain calls take the lane: it opens with the first list of tools."""
    opened = []

    def start(*options, **how):
        client = place.stdio(*options, **how)
        client.request("tools/list")
        opened.append(client)
        return client

    yield start
    for client in opened:
        if client.process.poll() is None:
            client.process.kill()
        client.close()


def plain(number, tool, /, **arguments):
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def ping(number):
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


def cancelled(number):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def at_once(client, *messages):
    """All the messages in one write, so that the server finds them together."""
    client.send_bytes(b"\n".join(json.dumps(message).encode() for message in messages))


def is_readable(client, seconds):
    return bool(select.select([client.process.stdout], [], [], seconds)[0])


def endings(place):
    return [(event.tool, event.outcome) for event in place.events()]


def fill_the_pipe(place, client, answers=20):
    """Ask for more than a pipe holds, and read none of it."""
    place.write("long.txt", "a line of some length\n" * 2_000)
    at_once(client, *(plain(f"unread {number}", "Read", file_path="long.txt") for number in range(answers)))


# The same answers as the SDK's.


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "a.txt"}),
        ("Read", {"file_path": "missing.txt"}),
        ("Read", {"file_path": "../out.txt"}),
        ("Read", {}),
        ("Read", {"file_path": "a.txt", "nonsense": [1]}),
        ("Read", {"file_path": "a.txt", "limit": 1e999}),
        ("Edit", {"file_path": "a.txt", "old_string": "nowhere", "new_string": ""}),
        ("Grep", {"pattern": "two", "output_mode": "content"}),
        ("Grep", {"pattern": "("}),
        ("Reed", {"file_path": "a.txt"}),
    ],
)
def test_an_answer_has_the_shape_that_the_sdk_gives_it(place, lane, tool, arguments):
    place.write("a.txt", "one\ntwo\n")
    client = lane()
    short = plain(7, tool, **arguments)
    long = {**short, "params": {**short["params"], "unknown": 1}}  # nobody knows it, so the SDK looks at the call
    answers = []
    for message in (short, long):
        client.send(message)
        answers.append(client.receive())
    assert answers[0] == answers[1]
    assert list(answers[0]) == list(answers[1])


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**400, "", "7", 'ü\n\t"', "x" * 5_000])
def test_an_answer_carries_its_request_id_as_it_was_sent(lane, number):
    client = lane()
    for tool in ("LS", "Nothing"):
        client.send(plain(number, tool))
        answer = client.receive()
        assert answer["id"] == number
        assert type(answer["id"]) is type(number)


def test_a_number_and_the_same_digits_as_text_are_two_requests(place, lane):
    client = lane()
    at_once(client, plain(5, "LS"), plain("5", "LS"))
    assert {repr(client.receive()["id"]) for _ in range(2)} == {"5", "'5'"}
    assert client.close() == 0
    assert endings(place) == [("LS", CallOutcome.OK)] * 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"\\udc80"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Read","arguments":{"\\ud800":1}}}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"LS","arguments":{"x":NaN}}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"tools/call","params":{"name":"LS","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"LS","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"LS","arguments":{"\xff":1}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"LS","arguments":'
        + b'{"a":' * 900
        + b"1"
        + b"}" * 902,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"tools/call","params":{}}',
    ],
)
def test_a_hostile_line_gets_one_error_and_the_next_call_runs(lane, line):
    client = lane()
    client.send_bytes(line)
    assert error_in(client.receive()) is not None
    assert expect_result(client.call("LS"))


def test_an_id_used_again_while_it_runs_is_answered_each_time(place, lane):
    client = lane()
    at_once(client, plain("same", "Glob", pattern="*"), plain("same", "Glob", pattern="*"))
    assert [client.receive()["id"] for _ in range(2)] == ["same", "same"]
    assert client.close() == 0
    assert endings(place) == [("Glob", CallOutcome.OK)] * 2


# Cancelled calls.


@pytest.mark.parametrize("before", [[], [ping("first")]], ids=["alone", "behind another message"])
def test_a_call_cancelled_in_the_moment_it_arrives_is_recorded_and_not_answered(place, lane, before):
    client = lane()
    at_once(client, *before, plain("slow", "Grep", **place.endless()), cancelled("slow"), ping("last"))
    for message in (*before, ping("last")):
        assert client.receive()["id"] == message["id"]
    at_once(client, plain("slow", "LS"))  # the id is free again
    assert client.receive()["id"] == "slow"
    assert client.close() == 0
    assert sorted(endings(place)) == [("Grep", CallOutcome.CANCELLED), ("LS", CallOutcome.OK)]


def test_cancelling_twice_is_cancelling_once(place, lane, wait_until, children):
    client = lane()
    client.send(plain("slow", "Grep", **place.endless()))
    wait_until(lambda: "rg" in children(client.process.pid))
    at_once(client, cancelled("slow"), cancelled("slow"), ping("last"))
    assert client.receive()["id"] == "last"
    assert client.close() == 0
    assert endings(place) == [("Grep", CallOutcome.CANCELLED)]


def test_a_question_that_is_cancelled_leaves_nothing_written(place, lane):
    client = lane("--permission-mode", "default", capabilities=CAN_ANSWER)
    client.send(plain("asking", "Write", file_path="a.txt", content="x"))
    assert client.receive()["method"] == "elicitation/create"
    at_once(client, cancelled("asking"), plain("last", "LS"))
    assert client.wait_for_response("last")["result"]
    assert client.close() == 0
    assert os.listdir(place.workspace) == []
    assert sorted(endings(place)) == [("LS", CallOutcome.OK), ("Write", CallOutcome.CANCELLED)]


# Questions and progress.


@pytest.mark.parametrize(("answer", "outcome"), [(YES, CallOutcome.OK), (NO, CallOutcome.DENIED)])
def test_a_question_is_put_and_its_answer_counts(place, lane, answer, outcome):
    client = lane(
        "--permission-mode", "default", capabilities=CAN_ANSWER, answers=lambda question: {"result": answer}
    )
    done = client.call("Write", file_path="a.txt", content="x")
    assert (error_in(done) is None) is (outcome is CallOutcome.OK)
    assert client.close() == 0
    assert (endings(place), os.path.exists(f"{place.workspace}/a.txt")) == (
        [("Write", outcome)],
        outcome is CallOutcome.OK,
    )


def test_two_questions_at_once_are_not_mixed_up(place, lane):
    client = lane("--permission-mode", "default", capabilities=CAN_ANSWER)
    at_once(client, *(plain(name, "Write", file_path=name, content="x") for name in ("yes.txt", "no.txt")))
    for question in [client.receive() for _ in range(2)]:
        said = YES if "yes.txt" in question["params"]["message"] else NO
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": said})
    answers = {answer["id"]: error_in(answer) is None for answer in (client.receive() for _ in range(2))}
    assert answers == {"yes.txt": True, "no.txt": False}
    assert os.listdir(place.workspace) == ["yes.txt"]


@pytest.mark.parametrize("token", [0, "t"])
def test_progress_goes_to_the_token_that_was_sent(place, lane, token):
    client = lane()
    message = plain("slow", "Grep", **place.endless())
    message["params"]["_meta"] = {"progressToken": token}
    client.send(message)
    told = client.receive()
    assert (told["method"], told["params"]["progressToken"]) == ("notifications/progress", token)
    client.send(cancelled("slow"))


# Calls that take long are not run in everybody's way.


def hole_after_text(place):
    place.write("hole.txt", "text\n" * 4_000)
    os.truncate(f"{place.workspace}/hole.txt", ENDLESS_BYTES)
    return plain("slow", "Read", file_path="hole.txt", offset=1, limit=1)


@pytest.fixture
def locked(place):
    """The workspace, locked by another program."""
    folder = os.open(place.workspace, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    yield
    os.close(folder)


def waiting_for_a_lock(place):
    del place
    return plain("slow", "Write", file_path="locked.txt", content="x")


@pytest.mark.usefixtures("locked")
@pytest.mark.parametrize("slow", [hole_after_text, waiting_for_a_lock])
def test_a_call_that_takes_long_holds_up_nobody_else_and_can_be_stopped(place, lane, slow):
    client = lane()
    at_once(client, slow(place), ping("next"))
    assert is_readable(client, PATIENCE_SECONDS)
    assert client.receive()["id"] == "next"
    client.process.terminate()
    assert client.process.wait(STOP_SECONDS) == 0
    assert [outcome for _, outcome in endings(place)] == [CallOutcome.CANCELLED]


# A client that does not read, leaves, or stops the server.


def test_a_client_that_reads_late_gets_every_answer_whole(place, lane):
    client = lane()
    fill_the_pipe(place, client)
    client.send(plain("last", "LS"))
    assert [client.receive()["id"] for _ in range(21)] == [f"unread {number}" for number in range(20)] + ["last"]


def test_a_client_that_reads_nothing_is_given_no_more_than_it_can_make_us_hold(place, lane, wait_until):
    client = lane()
    image = b"\x89PNG\r\n\x1a\n" + bytes.fromhex("0000000d49484452000000010000000108060000001f15c489")
    image += (200_000).to_bytes(4) + b"IDAT" + bytes(200_004) + bytes.fromhex("0000000049454e44ae426082")
    place.write("p.png", image)
    at_once(client, *(plain(number, "Read", file_path="p.png") for number in range(1_000)))
    done = 0

    def is_still():
        nonlocal done
        before, done = done, len(endings(place))
        return done and before == done

    wait_until(is_still)
    assert done < 200  # of the thousand: what is unread is bounded, not what was asked
    assert [client.receive()["id"] for _ in range(1_000)] == list(range(1_000))


def test_the_end_of_input_waits_for_what_is_owed(place, lane):
    client = lane()
    place.write("a.txt", "one\n")
    at_once(client, plain(1, "Read", file_path="a.txt"), plain(2, "Grep", pattern="one"), plain(3, "LS"))
    client.process.stdin.close()
    assert {client.receive()["id"] for _ in range(3)} == {1, 2, 3}
    assert client.process.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_answers_what_is_owed_and_ends_well(place, lane, wait_until, children, number):
    client = lane()
    client.send(plain("slow", "Grep", **place.endless()))
    wait_until(lambda: "rg" in children(client.process.pid))
    client.process.send_signal(number)
    assert client.receive()["error"]["message"] == "The server is stopping."
    assert client.process.wait(STOP_SECONDS) == 0
    assert endings(place) == [("Grep", CallOutcome.CANCELLED)]


def test_a_client_that_does_not_read_cannot_keep_a_stopped_server_alive(place, lane, wait_until, children):
    client = lane()
    fill_the_pipe(place, client)
    client.send(plain("slow", "Grep", **place.endless()))
    wait_until(lambda: "rg" in children(client.process.pid))
    client.process.terminate()
    assert client.process.wait(STOP_SECONDS) == 0
    assert endings(place)[-1] == ("Grep", CallOutcome.CANCELLED)


def test_a_client_that_leaves_without_reading_ends_the_server(place, lane, wait_until, children):
    client = lane()
    fill_the_pipe(place, client)
    client.send(plain("slow", "Grep", **place.endless()))
    wait_until(lambda: "rg" in children(client.process.pid))
    client.process.stdout.close()
    assert client.process.wait(STOP_SECONDS) == 0
    assert endings(place)[-1] == ("Grep", CallOutcome.CANCELLED)

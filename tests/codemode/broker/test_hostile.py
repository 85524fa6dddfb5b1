"""Code that floods its broker, sends nonsense, or does not listen. Nobody else may notice."""

import json
import os
import random
import resource
import socket
import struct
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fake_clock import put_forward
from toolyard.core.limits import KIB, MIB

from .brokering import DEADLINE, Hold, Raw, echo

GARBAGE = {
    "not JSON": b"\x05\x00\x00\x00hello",
    "not UTF-8": struct.pack("<I", 4) + b'"\xff"\xfe',
    "not an object": struct.pack("<I", 2) + b"[]",
    "no number": struct.pack("<I", 2) + b"{}",
    "a number of text": struct.pack("<I", 10) + b'{"id": "1"',
    "a boolean number": struct.pack("<I", 12) + b'{"id": true }',
    "an empty frame": struct.pack("<I", 0),
    "too long": struct.pack("<I", 0xFFFFFFFF),
    "very deep": struct.pack("<I", 200_000) + b"[" * 200_000,
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_nonsense_ends_its_connection_with_a_reason_and_no_other(yard, data):
    broker = yard.open()
    with Raw(broker) as good, Raw(broker) as bad:
        good.ask(1)
        assert good.receive()["id"] == 1
        bad.socket.sendall(data)
        last = bad.receive()
        assert (last["id"], last["error"]["kind"]) == (0, "lost")
        assert last["error"]["message"].startswith("Toolyard closed the connection: ")
        assert bad.is_closed
        good.ask(2)
        assert good.receive()["id"] == 2
    assert yard.settles(lambda: broker.admission.is_idle and broker.connection_count == 0)


def test_a_number_that_is_used_twice_ends_the_connection(yard):
    hold = Hold()
    with Raw(yard.open(hold)) as raw:
        raw.ask(1)
        raw.ask(1)
        assert "two calls have the id 1" in raw.receive()["error"]["message"]
        assert hold.reaches(lambda held: held.open == 0)


@given(data=st.binary(max_size=300))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_bytes_hurt_it(yard, data):
    if not yard.brokers:
        yard.open()
    broker = yard.brokers[0]
    with Raw(broker) as bad:
        bad.socket.sendall(data)
        bad.socket.shutdown(socket.SHUT_WR)
        while bad.receive() is not None:
            pass
    with Raw(broker) as good:
        good.ask(1)
        assert good.receive()["id"] == 1


def test_a_frame_may_come_byte_by_byte(yard):
    with Raw(yard.open()) as raw:
        body = b'{"id":1,"do":"mcp","tool":"t"}'
        for byte in struct.pack("<I", len(body)) + body:
            raw.socket.sendall(bytes([byte]))
        assert raw.receive()["id"] == 1


def test_frames_may_be_cut_anywhere(yard):
    frames = b"".join(
        struct.pack("<I", len(body)) + body
        for body in (json.dumps({"id": n, "do": "mcp", "tool": "x" * (n * 37 % 500)}).encode() for n in range(1, 200))
    )
    chance = random.Random(4)
    with Raw(yard.open()) as raw:
        at = 0
        while at < len(frames):
            size = chance.choice([1, 2, 3, 5, 100, 3000])
            raw.socket.sendall(frames[at : at + size])
            at += size
        answers = {answer["id"]: answer["result"] for answer in (raw.receive() for _ in range(1, 200))}
    assert all(answers[n]["structured"]["tool"] == "x" * (n * 37 % 500) for n in range(1, 200))


def test_half_a_frame_is_not_waited_for_for_ever(yard):
    broker = yard.open(stall_seconds=0.1)
    with Raw(broker) as raw:
        raw.socket.sendall(struct.pack("<I", 1000) + b"x")
        assert "a frame is incomplete" in raw.receive()["error"]["message"]
        assert raw.is_closed
    assert yard.settles(lambda: broker.admission.is_idle)


def test_a_connection_that_says_nothing_may_stay(yard):
    broker = yard.open(stall_seconds=0.05)
    with Raw(broker) as raw, Raw(broker) as late:
        late.socket.sendall(b"\x10")
        assert late.receive()["id"] == 0  # by now a silent one would have been ended as well
        raw.ask(1)
        assert raw.receive()["id"] == 1


def test_an_answer_that_nobody_reads_is_held_once_and_then_its_connection_goes(yard):
    big = "x" * (50 * MIB)

    async def handler(request, progress):
        return big if request.tool == "big" else "small"

    broker = yard.open(handler, stall_seconds=0.5)
    with Raw(broker) as slow, Raw(broker) as good:
        slow.ask(1, "big")
        for number in range(2, 50):
            slow.ask(number, "small")
        good.ask(1)
        assert good.receive()["result"] == "small"
        assert yard.settles(lambda: broker.connection_count == 1)
    assert yard.settles(lambda: broker.admission.is_idle)


def test_a_slow_reader_gets_its_big_answer_as_long_as_it_reads(yard):
    big = "x" * (8 * MIB)

    async def handler(request, progress):
        return big

    with Raw(yard.open(handler, stall_seconds=600)) as slow:
        slow.ask(1)
        got = 0
        while got < len(big):
            chunk = slow.socket.recv(min(256 * KIB, len(big) - got), socket.MSG_WAITALL)
            assert chunk, "it was taken for one that does not read"
            got += len(chunk)
            put_forward(yard.loop, 400)


def test_answers_that_pile_up_unread_end_their_connection(yard):
    hold = Hold("x" * MIB)
    broker = yard.open(hold, unread_bytes=8 * MIB)
    with Raw(broker) as slow:
        for number in range(1, 31):
            slow.ask(number)
        assert hold.reaches(lambda held: held.open == 30)
        hold.let_go(yard.loop)
        assert yard.settles(lambda: broker.connection_count == 0)
    assert broker.admission.is_idle


def test_no_more_calls_are_taken_than_a_connection_may_have(yard):
    hold = Hold()
    broker = yard.open(hold, calls_per_connection=8)
    with Raw(broker) as raw, Raw(broker) as other:
        for number in range(1, 41):
            raw.ask(number)
        assert hold.reaches(lambda held: held.open == 8)
        other.ask(1)
        assert hold.reaches(lambda held: held.open == 9)
        hold.let_go(yard.loop)
        assert sorted(raw.receive()["id"] for _ in range(40)) == list(range(1, 41))
        assert hold.most == 9
    assert yard.settles(lambda: broker.admission.is_idle)


def test_no_more_calls_are_taken_than_an_agent_may_have_and_each_gets_its_turn(yard):
    hold = Hold()
    broker = yard.open(hold, calls=10)
    raws = [Raw(broker) for _ in range(6)]
    try:
        for raw in raws:
            for number in range(1, 11):
                raw.ask(number)
        assert hold.reaches(lambda held: held.open == 10)
        hold.let_go(yard.loop)
        for raw in raws:
            assert sorted(raw.receive()["id"] for _ in range(10)) == list(range(1, 11))
        assert hold.most == 10
    finally:
        for raw in raws:
            raw.close()
    assert yard.settles(lambda: broker.admission.is_idle)


def test_ten_thousand_calls_held_open_cost_little_and_hurt_nobody(yard):
    hold = Hold()
    flooded, other = yard.open(hold, agent="a"), yard.open(echo, agent="b")
    body = json.dumps({"id": 0, "do": "mcp", "tool": "x" * 1000}).encode()
    before = memory()
    raws = [Raw(flooded) for _ in range(20)]

    def flood(raw):
        with_numbers = (body.replace(b'"id": 0', b'"id": %d' % number) for number in range(1, 501))
        try:
            for one in with_numbers:
                raw.send_bytes(one)
        except OSError:
            pass  # the test is over

    threads = [threading.Thread(target=flood, args=(raw,)) for raw in raws]
    try:
        for thread in threads:
            thread.start()
        assert hold.reaches(lambda held: held.open == 1024)
        with Raw(other) as raw:
            for number in range(1, 201):
                raw.ask(number)
                assert raw.receive()["id"] == number
        assert hold.most == 1024
        assert memory() - before < 100 * MIB
    finally:
        for raw in raws:
            raw.socket.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(DEADLINE)
        for raw in raws:
            raw.close()
    assert hold.reaches(lambda held: held.open == 0)
    assert yard.settles(lambda: flooded.admission.is_idle and flooded.connection_count == 0)


def test_one_that_is_not_read_is_missed_when_it_goes(yard):
    """While its calls fill it, the loop is not told that nobody is there any more."""
    hold = Hold()
    broker = yard.open(hold, calls_per_connection=2)
    with Raw(broker) as raw:
        for number in range(1, 10):
            raw.ask(number)
        assert hold.reaches(lambda held: held.open == 2)
    assert hold.reaches(lambda held: held.open == 0)
    assert hold.begun == 2


def test_big_requests_wait_for_room(yard):
    hold = Hold()
    broker = yard.open(hold, request_bytes=3 * MIB, frame_bytes=2 * MIB)
    raws = [Raw(broker) for _ in range(5)]
    threads = [threading.Thread(target=raw.ask, args=(1,), kwargs={"text": "x" * MIB}) for raw in raws]
    try:
        for thread in threads:
            thread.start()
        assert hold.reaches(lambda held: held.open == 2)
        hold.let_go(yard.loop)
        assert [raw.receive()["id"] for raw in raws] == [1] * 5
        assert hold.most == 2
    finally:
        for thread in threads:
            thread.join(DEADLINE)
        for raw in raws:
            raw.close()
    assert yard.settles(lambda: broker.admission.is_idle)


def test_one_that_goes_while_it_waits_lets_the_next_one_in(yard):
    hold = Hold()
    broker = yard.open(hold, calls=1)
    with Raw(broker) as first, Raw(broker) as third:
        first.ask(1)
        assert hold.reaches(lambda held: held.open == 1)
        with Raw(broker) as second:
            second.ask(1)
            assert yard.settles(lambda: len(broker.admission._waiting) == 1)
            third.ask(1)
            assert yard.settles(lambda: len(broker.admission._waiting) == 2)
        assert yard.settles(lambda: len(broker.admission._waiting) == 1)
        hold.let_go(yard.loop)
        assert third.receive()["id"] == 1
    assert yard.settles(lambda: broker.admission.is_idle)


def test_who_waited_behind_one_that_went_is_let_in_where_there_is_room(yard):
    hold = Hold()
    broker = yard.open(hold, request_bytes=3 * MIB, frame_bytes=2 * MIB + KIB)
    with Raw(broker) as first, Raw(broker) as third:
        first.ask(1, text="x" * 2 * MIB)
        assert hold.reaches(lambda held: held.open == 1)
        with Raw(broker) as second:
            second.socket.sendall(struct.pack("<I", 2 * MIB))
            assert yard.settles(lambda: len(broker.admission._waiting) == 1)
            third.ask(1)
            assert yard.settles(lambda: len(broker.admission._waiting) == 2)
        assert hold.reaches(lambda held: held.open == 2)


def test_there_is_an_end_to_connections(yard):
    broker = yard.open(connections=3)
    raws = [Raw(broker) for _ in range(3)]
    try:
        for raw in raws:
            raw.ask(1)
            assert raw.receive()["id"] == 1
        with Raw(broker) as late:
            assert "3 are open" in late.receive()["error"]["message"]
            assert late.is_closed
        raws.pop().close()
        assert yard.settles(lambda: broker.connection_count == 2)
        with Raw(broker) as again:
            again.ask(1)
            assert again.receive()["id"] == 1
    finally:
        for raw in raws:
            raw.close()


def test_a_flood_of_connections_leaves_nothing_behind(yard):
    broker = yard.open()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(500):
        with Raw(broker) as raw:
            raw.socket.sendall(b"\x00")
    assert yard.settles(lambda: broker.connection_count == 0)
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_two_agents_never_see_each_others_results(yard):
    """Each sends numbered texts of its own, many at once, over several connections."""

    async def handler(request, progress):
        return f"{request.agent}/{request.arguments['text']}"

    brokers = {agent: yard.open(handler, agent=agent) for agent in ("a", "b")}
    wrong = []

    def work(agent, part):
        with Raw(brokers[agent]) as raw:
            for start in range(1, 1001, 50):
                for number in range(start, start + 50):
                    raw.ask(number, text=f"{agent}{part}-{number}")
                for _ in range(50):
                    answer = raw.receive()
                    if answer["result"] != f"{agent}/{agent}{part}-{answer['id']}":
                        wrong.append(answer)

    threads = [threading.Thread(target=work, args=(agent, part)) for agent in brokers for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE * 2)
    assert wrong == []


@pytest.mark.parametrize("number_first", [True, False])
def test_a_request_of_too_many_values_is_refused_before_it_is_parsed(yard, number_first):
    broker = yard.open()
    values = b"[" + b",".join([b"{}"] * 1_000_000) + b"]"
    asked = b'"do":"mcp","server":"s","tool":"t","arguments":{"a":' + values + b"}"
    before = memory()
    with Raw(broker) as raw:
        raw.send_bytes(b'{"id":4,' + asked + b"}" if number_first else b"{" + asked + b',"id":4}')
        refused = raw.receive()
        assert (refused["id"], refused["error"]["kind"]) == (4, "invalid")
        assert "more than 1,000,000 values. Write them to a file" in refused["error"]["message"]
        raw.ask(5, text=",[{" * 500_000)
        assert len(raw.receive()["result"]["structured"]["arguments"]["text"]) == 1_500_000
    assert memory() - before < 50 * MIB
    assert yard.settles(lambda: broker.admission.is_idle)


def test_too_many_values_in_a_frame_without_a_number_end_the_connection(yard):
    broker = yard.open(parts=1_000)
    with Raw(broker) as raw:
        raw.send_bytes(b"[" + b"0," * 20_000 + b"0]")
        assert "a frame without a usable id was refused" in raw.receive()["error"]["message"]
        assert raw.is_closed
    assert yard.settles(lambda: broker.admission.is_idle)


def test_requests_are_charged_for_what_they_become_in_memory(yard):
    hold = Hold()
    broker = yard.open(hold, request_bytes=2 * MIB, frame_bytes=MIB)
    with Raw(broker) as raw:
        for number in (1, 2):
            raw.ask(number, a=[0] * 15_000)
        assert hold.reaches(lambda held: held.open == 1)
        refused = raw.receive()
        assert (refused["id"], refused["error"]["kind"]) == (2, "system")
        assert "Other calls use too much memory" in refused["error"]["message"]
        hold.let_go(yard.loop)
        assert raw.receive()["id"] == 1
        raw.ask(3, a=[0] * 15_000)
        assert raw.receive()["id"] == 3
    assert yard.settles(lambda: broker.admission.is_idle)

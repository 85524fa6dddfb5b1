"""A run that prints faster than anybody reads does not fill the server's memory."""

import queue
import threading

import pytest

from toolyard.sandbox.process import client
from toolyard.sandbox.process.client import OVERFLOWED, FrameQueue
from toolyard_runtime import protocol

ENDLESS = 1 << 40
PART = (protocol.OUT, b"x" * 65_536)
WAIT = 20.0


def taken(box):
    found = []
    while True:
        try:
            found.append(box.take(0.01))
        except queue.Empty:
            return found


def test_frames_come_in_their_order():
    box = FrameQueue(ENDLESS)
    frames = [(protocol.OUT, b"a"), (protocol.ERR, b"b"), (protocol.EXIT, b"c")]
    for frame in frames:
        box.put(frame)
    assert taken(box) == frames


def test_the_reader_waits_until_there_is_room(monkeypatch):
    monkeypatch.setattr(client, "_MAX_QUEUED_BYTES", 3 * 65_536)
    monkeypatch.setattr(client, "_FULL_WAIT_SECONDS", WAIT)
    box = FrameQueue(ENDLESS)
    reading = threading.Thread(target=lambda: [box.put(PART) for _ in range(50)])
    reading.start()
    found = 0
    while found < 50:
        assert box.take(WAIT) == PART
        found += 1
        assert box._frames.qsize() <= 3
    reading.join(WAIT)


@pytest.mark.parametrize("frame", [PART, (protocol.OUT, b""), (protocol.VALUE, b"{}")])
def test_a_run_that_nobody_listens_to_is_given_up(monkeypatch, frame):
    monkeypatch.setattr(client, "_MAX_QUEUED_BYTES", 3 * 65_536)
    monkeypatch.setattr(client, "_FULL_WAIT_SECONDS", 0.01)
    box = FrameQueue(ENDLESS)
    for _ in range(3_000):
        box.put(frame)
    box.put((protocol.EXIT, b"end"))
    held = taken(box)
    assert held[-2:] == [(OVERFLOWED, b""), (protocol.EXIT, b"end")]
    assert len(held) < 2_000


def test_more_than_a_run_may_print_is_not_believed(monkeypatch):
    monkeypatch.setattr(client, "_OUTPUT_SLACK_BYTES", 65_536)
    box = FrameQueue(65_536)
    for _ in range(5):
        box.put(PART)
    assert taken(box) == [PART, PART, (OVERFLOWED, b"")]


def test_a_reader_that_waits_is_let_go_when_the_run_is_over(monkeypatch):
    monkeypatch.setattr(client, "_MAX_QUEUED_BYTES", 65_536)
    monkeypatch.setattr(client, "_FULL_WAIT_SECONDS", WAIT * 3)
    box = FrameQueue(ENDLESS)
    box.put(PART)
    reading = threading.Thread(target=box.put, args=(PART,))
    reading.start()
    box.close()
    reading.join(WAIT)
    assert not reading.is_alive()

"""The log of a run, on a real disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import time

import pytest

from tests.team import scripted_events as scripted
from toolyard.team.events import Notice, RunFinished, TextDelta, ThinkingDelta, ToolCalled
from toolyard.team.log import RunLog, json_line, read_log

ADA = {"agent": "ada", "round": 1}


class Told(list):
    def __call__(self, notice: Notice) -> None:
        self.append(notice.text)


def records(log):
    with open(log.path) as file:
        return [json.loads(line) for line in file]


def test_what_is_read_is_what_was_heard_but_for_texts_in_pieces(tmp_path):
    with RunLog(str(tmp_path), Told()) as log:
        for event in scripted.whole_run():
            log.record(event)
    kept = (TextDelta, ThinkingDelta)
    read = [*read_log(log.path)]
    assert [e for e in read if not isinstance(e, kept)] == [
        e for e in scripted.whole_run() if not isinstance(e, kept)
    ]
    assert [e.text for e in read if isinstance(e, ThinkingDelta)] == ["Where are prices added up?"]


def test_pieces_of_two_agents_at_once_become_one_text_of_each_before_what_follows(tmp_path):
    with RunLog(str(tmp_path), Told()) as log:
        for number in range(500):
            log.record(TextDelta(agent="ada", round=1, text=f"a{number} ", at=number))
            log.record(TextDelta(agent="bob", round=1, text="b", at=number))
        log.record(ToolCalled(call="1", tool="LS", arguments={}, **ADA))
        found = records(log)
        assert [(each["type"], each["agent"]) for each in found] == [("text_delta", "ada"), ("tool_called", "ada")]
        assert found[0]["text"] == "".join(f"a{number} " for number in range(500))
        assert found[0]["at"] == 0
    assert records(log)[-1]["text"] == "b" * 500


def test_a_text_that_goes_on_is_on_disk_within_a_second_or_so(tmp_path):
    with RunLog(str(tmp_path), Told()) as log:
        log.record(TextDelta(text="and then silence", **ADA))
        until = time.monotonic() + 20
        while not records(log) and time.monotonic() < until:
            time.sleep(0.01)
        assert [each["text"] for each in records(log)] == ["and then silence"]


def test_a_torn_line_costs_itself_only(tmp_path):
    with RunLog(str(tmp_path), Told()) as log:
        log.record(Notice(text="first"))
        log.record(Notice(text="second"))
    with open(log.path, "r+b") as file:
        file.truncate(os.path.getsize(log.path) - 7)
    assert [event.text for event in read_log(log.path)] == ["first"]
    with RunLog(str(tmp_path), Told()) as again:
        again.record(Notice(text="third"))
    assert [event.text for event in read_log(log.path)] == ["first", "third"]


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{}", '{"type": "later"}', '{"type": "notice"}', "\xff", "[" * 5000, '{"type":"used","spent":1}'],
)
def test_lines_that_are_no_event_are_passed_over(tmp_path, line):
    path = tmp_path / "events.jsonl"
    path.write_text(f'{line}\n{{"type": "notice", "text": "yes", "later": 1}}\n')
    assert [event.text for event in read_log(str(path))] == ["yes"]


def test_a_disk_that_takes_no_more_is_told_once_and_a_later_event_is_whole_again(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    usual = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    told = Told()
    try:
        with RunLog(str(tmp_path), told) as log:
            log.record(Notice(text="fits", at=0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(log.path) + 10, before[1]))
            for number in range(3):
                log.record(Notice(text=f"does not {number}"))
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            log.record(Notice(text="fits again"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, usual)
    assert [event.text for event in read_log(log.path)] == ["fits", "fits again"]
    assert len(told) == 1
    assert "cannot be written" in told[0]


def test_a_folder_that_is_gone_is_told_once_and_stops_nobody(tmp_path):
    told = Told()
    with RunLog(str(tmp_path / "gone"), told) as log:
        log.record(Notice(text="a"))
        log.record(Notice(text="b"))
    assert len(told) == 1


def test_what_is_told_may_come_back_to_the_log(tmp_path):
    heard = []

    def tell(notice):
        heard.append(notice)
        log.record(notice)

    log = RunLog(str(tmp_path), tell, max_bytes=400)
    for number in range(50):
        log.record(ToolCalled(call=str(number), tool="LS", arguments={"path": "x" * 50}, **ADA))
    log.record(scripted.finished())
    log.close()
    assert len(heard) == 1
    assert os.path.getsize(log.path) < 2_000
    assert isinstance([*read_log(log.path)][-1], RunFinished)


def test_a_hundred_thousand_pieces_are_quick_and_few(tmp_path):
    began = time.monotonic()
    with RunLog(str(tmp_path), Told()) as log:
        for number in range(100_000):
            log.record(TextDelta(agent=f"agent{number % 12}", round=1, text="word ", at=0))
    assert time.monotonic() - began < 20
    assert sum(len(event.text) for event in read_log(log.path)) == 500_000
    assert len(records(log)) < 1_000


def test_no_record_is_longer_than_a_log_should_hold(tmp_path):
    with RunLog(str(tmp_path), Told()) as log:
        log.record(ToolCalled(call="1", tool="Write", arguments={"content": "x" * 5_000_000}, **ADA))
    assert os.path.getsize(log.path) < 100_000
    [event] = read_log(log.path)
    assert event.arguments["content"].endswith("… (4,934,464 more characters)")


def test_arguments_that_are_nested_without_end_are_no_fault_of_the_log(tmp_path):
    deep = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with RunLog(str(tmp_path), Told()) as log:
        log.record(ToolCalled(call="1", tool="LS", arguments=deep, **ADA))
    [event] = read_log(log.path)
    assert event.tool == "LS"
    while deep:  # from the outside: what is freed from the inside recurses
        deep = deep.pop("a")


def test_a_line_of_json_does_nothing_to_a_terminal():
    line = json_line(Notice(text=f"{scripted.HOSTILE}\x7f\u2028"))
    assert line.isprintable()
    assert json.loads(line)["text"] == f"{scripted.HOSTILE}\x7f\u2028"

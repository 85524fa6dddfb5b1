"""Calls under way: in parallel, with progress, cancelled, and cut short by a signal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

import pytest

from toolyard.core.events import CallOutcome, Event
from toolyard.testing.mcp_client import expect_error, expect_result

CANCEL_SECONDS = 1.0  # a twentieth of it on an idle machine
STOP_SECONDS = 1.0  # a tenth of it on an idle machine
GONE_SECONDS = 1.0  # what is promised of a killed server
PROGRESS_TOKEN = "watch-me"


def endings(events: list[Event]) -> list[tuple[str, CallOutcome]]:
    return [(event.tool, event.outcome) for event in events]


def test_a_quick_call_is_answered_while_a_slow_one_runs(place, modern):
    place.write("a.txt", "one\n")
    with place.stdio(modern=modern) as client:
        slow = client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
        quick = client.send_request("tools/call", {"name": "Read", "arguments": {"file_path": "a.txt"}})
        assert client.receive()["id"] == quick
        client.notify("notifications/cancelled", {"requestId": slow})


def test_a_call_longer_than_a_second_reports_progress_to_those_who_want_it(place, modern):
    with place.stdio(modern=modern) as client:
        params = {"name": "Grep", "arguments": place.endless(), "_meta": {"progressToken": PROGRESS_TOKEN}}
        slow = client.send_request("tools/call", params)
        first, second = client.receive(), client.receive()
        client.notify("notifications/cancelled", {"requestId": slow})
    assert [told["method"] for told in (first, second)] == ["notifications/progress"] * 2
    assert [told["params"]["progressToken"] for told in (first, second)] == [PROGRESS_TOKEN] * 2
    assert 1 <= first["params"]["progress"] < second["params"]["progress"] < second["params"]["total"] == 60
    assert first["params"]["message"] == "Grep has been running for 1 s"


def test_nobody_is_told_of_progress_who_did_not_ask_for_it(place, modern):
    config = place.write("../limits.yaml", "limits: {call_seconds: 1.5}\n")
    with place.stdio("--config", config, modern=modern) as client:
        answer = client.call("Grep", **place.endless())
    assert (client.notifications, expect_error(answer)["code"]) == ([], -32603)


def test_a_cancelled_call_stops_ripgrep_is_recorded_once_and_not_answered(place, modern, wait_until, children):
    with place.stdio(modern=modern) as client:
        slow = client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
        wait_until(lambda: "rg" in children(client.process.pid))
        client.notify("notifications/cancelled", {"requestId": slow, "reason": "no longer needed"})
        wait_until(lambda: "rg" not in children(client.process.pid), CANCEL_SECONDS)
        last = client.send_request("tools/call", {"name": "LS", "arguments": {}})
        # Were the cancelled call answered, its answer would come before this one.
        assert client.receive()["id"] == last
    assert endings(place.events()) == [("Grep", CallOutcome.CANCELLED), ("LS", CallOutcome.OK)]


def test_cancelling_what_is_not_running_changes_nothing(place, modern):
    with place.stdio(modern=modern) as client:
        client.notify("notifications/cancelled", {"requestId": 999})
        client.notify("notifications/cancelled", {"requestId": "none"})
        assert expect_result(client.call("LS"))


def test_a_call_past_its_deadline_fails_and_says_so(place, modern, wait_until, children):
    config = place.write("../limits.yaml", "limits: {call_seconds: 0.3}\n")
    with place.stdio("--config", config, modern=modern) as client:
        error = expect_error(client.call("Grep", **place.endless()))
        wait_until(lambda: "rg" not in children(client.process.pid), CANCEL_SECONDS)
    assert (error["code"], error["data"]["retryable"]) == (-32603, True)
    assert endings(place.events()) == [("Grep", CallOutcome.FAILED)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_server_in_time_with_calls_under_way_recorded(place, modern, number, wait_until, children):
    client = place.stdio(modern=modern)
    for _ in range(3):
        client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
    wait_until(lambda: children(client.process.pid).count("rg") == 3)
    client.process.send_signal(number)
    assert client.process.wait(STOP_SECONDS) == 0
    client.close()
    assert endings(place.events()) == [("Grep", CallOutcome.CANCELLED)] * 3


def test_a_signal_ends_calls_that_go_on_after_the_end_of_input(place, wait_until, children):
    client = place.stdio()
    client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
    wait_until(lambda: "rg" in children(client.process.pid))
    client.process.stdin.close()
    client.process.terminate()
    assert client.process.wait(STOP_SECONDS) == 0
    client.close()
    assert endings(place.events()) == [("Grep", CallOutcome.CANCELLED)]


def test_a_killed_server_leaves_no_search_behind(place, wait_until, children):
    client = place.stdio()
    for _ in range(3):
        client.send_request("tools/call", {"name": "Grep", "arguments": place.endless()})
    wait_until(lambda: children(client.process.pid).count("rg") == 3)
    searches = [os.pidfd_open(pid) for pid in searches_of(client.process.pid)]  # readable once it has ended
    try:
        assert len(searches) == 3
        client.process.kill()
        killed_at = time.monotonic()
        for search in searches:
            left = max(killed_at + GONE_SECONDS - time.monotonic(), 0)
            assert select.select([search], [], [], left)[0] == [search]
    finally:
        client.close()
        for search in searches:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(search, signal.SIGKILL)
            os.close(search)


def searches_of(parent: int) -> list[int]:
    found: list[int] = []
    for task in os.listdir(f"/proc/{parent}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{parent}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return [pid for pid in found if name_of(pid) == "rg"]


def name_of(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


def test_forty_calls_at_once_are_all_answered_and_each_is_recorded_once(place, modern):
    for number in range(40):
        place.write(f"{number}.txt", f"file {number}\n")
    with place.stdio(modern=modern) as client:
        asked = {
            client.send_request("tools/call", {"name": "Read", "arguments": {"file_path": f"{number}.txt"}}): number
            for number in range(40)
        }
        answers = [client.receive() for _ in asked]
    shown = {asked[answer["id"]]: answer["result"]["structuredContent"]["content"] for answer in answers}
    assert shown == {number: f"file {number}\n" for number in range(40)}
    assert endings(place.events()) == [("Read", CallOutcome.OK)] * 40


def test_every_stdio_session_has_an_id_of_its_own_in_the_log(place, modern):
    place.write("a.txt", "one\n")
    for _ in range(2):
        with place.stdio(modern=modern) as client:
            client.call("Read", file_path="a.txt")
            client.call("Bash", command="true")
    sessions = [event.session for event in place.events()]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert "stdio" not in sessions

"""What a broker does with the frames it is sent."""

import asyncio
import os
import stat
import threading

import pytest

from toolyard.codemode.broker import Broker, RequestKind, RequestRefused
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.upstream import UpstreamResult
from toolyard.mcp_client.errors import CallTimedOut, ServerUnavailable

from .brokering import Hold, Raw


def raising(error):
    async def handler(request, progress):
        raise error

    return handler


def error_of(yard, handler, frame=None):
    with Raw(yard.open(handler)) as raw:
        raw.send(frame or {"id": 1, "do": "mcp", "server": "s", "tool": "t"})
        return raw.receive()["error"]


def test_a_request_reaches_the_handler_as_it_was_sent(yard):
    seen = []

    async def handler(request, progress):
        seen.append(request)
        return {"done": True}

    with Raw(yard.open(handler, agent="b")) as raw:
        raw.send({"id": 7, "do": "mcp", "server": "s", "tool": "t", "arguments": {"k": [1, None]}, "timeout": 3})
        assert raw.receive() == {"id": 7, "result": {"done": True}}
    (request,) = seen
    assert (request.agent, request.do, request.server, request.tool) == ("b", RequestKind.MCP, "s", "t")
    assert (request.arguments, request.timeout) == ({"k": [1, None]}, 3)


def test_nothing_in_a_frame_changes_who_asks(yard):
    with Raw(yard.open(agent="a")) as raw:
        raw.send(
            {"id": 1, "do": "mcp", "agent": "b", "tool": "t", "arguments": {"agent": "b"}, "as": "b", "user": "b"}
        )
        assert raw.receive()["result"]["structured"]["agent"] == "a"


def test_answers_come_as_they_are_ready_and_not_in_turn(yard):
    hold = Hold()

    async def handler(request, progress):
        return await hold(request, progress) if request.tool == "slow" else request.tool

    with Raw(yard.open(handler)) as raw:
        raw.ask(1, "slow")
        raw.ask(2, "quick")
        assert raw.receive() == {"id": 2, "result": "quick"}
        hold.let_go(yard.loop)
        assert raw.receive() == {"id": 1, "result": "slow"}


def test_a_tools_answer_keeps_its_content_and_structure(yard):
    async def handler(request, progress):
        return UpstreamResult(({"type": "text", "text": "x"},), {"n": 1})

    with Raw(yard.open(handler)) as raw:
        raw.ask(1)
        assert raw.receive()["result"] == {"content": [{"type": "text", "text": "x"}], "structured": {"n": 1}}


def test_a_tool_that_says_it_failed_is_an_error_with_its_content(yard):
    async def handler(request, progress):
        return UpstreamResult(({"type": "text", "text": "no such page"},), is_error=True)

    error = error_of(yard, handler)
    assert error["content"] == [{"type": "text", "text": "no such page"}]
    assert (error["kind"], error["message"], error["server"], error["tool"]) == ("tool", "no such page", "s", "t")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (RequestRefused("permission", "Agent 'a' not authorized for server 's'"), "permission"),
        (SecurityError("no"), "permission"),
        (ValidationError("bad", hint="Better."), "invalid"),
        (ToolError("failed"), "tool"),
        (CallTimedOut("s", "t", 3), "timeout"),
        (ServerUnavailable("s", "is down"), "unavailable"),
        (SystemFault("broken"), "system"),
        (TimeoutError(), "timeout"),
    ],
)
def test_each_error_has_its_kind(yard, raised, kind):
    error = error_of(yard, raising(raised))
    assert error["kind"] == kind
    if str(raised):
        assert error["message"] == str(raised)


def test_a_fault_of_ours_tells_its_name_and_nothing_of_what_it_held(yard):
    error = error_of(yard, raising(KeyError("the secret")))
    assert error["kind"] == "system"
    assert "KeyError" in error["message"]
    assert "secret" not in error["message"]


def test_a_time_out_ends_the_call_whatever_it_waits_for(yard):
    hold = Hold()
    error = error_of(yard, hold, {"id": 1, "do": "mcp", "server": "s", "tool": "t", "timeout": 0.05})
    assert error["kind"] == "timeout"
    assert "s.t did not answer within 0.05 s" in error["message"]
    assert hold.reaches(lambda held: held.cancelled == 1 and held.open == 0)


def test_progress_is_told_to_who_asked_for_it(yard):
    async def handler(request, progress):
        progress(1, 2, "half")
        return "done"

    with Raw(yard.open(handler)) as raw:
        raw.send({"id": 1, "do": "mcp", "tool": "t", "progress": True})
        assert raw.receive() == {"id": 1, "progress": {"done": 1.0, "total": 2.0, "message": "half"}}
        assert raw.receive() == {"id": 1, "result": "done"}
        raw.ask(2)
        assert raw.receive() == {"id": 2, "result": "done"}


def test_a_cancelled_call_ends_and_the_others_go_on(yard):
    hold = Hold()
    broker = yard.open(hold)
    with Raw(broker) as raw:
        raw.ask(1, "one")
        raw.ask(2, "two")
        assert hold.reaches(lambda held: held.open == 2)
        raw.send({"id": 3, "do": "cancel", "call": 1})
        assert hold.reaches(lambda held: held.open == 1)
        hold.let_go(yard.loop)
        assert raw.receive() == {"id": 2, "result": "two"}


def test_a_call_that_is_cancelled_before_it_began_leaves_no_trace(yard):
    hold = Hold()
    broker = yard.open(hold)
    with Raw(broker) as raw:
        one = b'{"id":1,"do":"mcp","tool":"t"}'
        two = b'{"id":2,"do":"cancel","call":1}'
        raw.socket.sendall(len(one).to_bytes(4, "little") + one + len(two).to_bytes(4, "little") + two)
        assert yard.settles(lambda: broker.admission.is_idle)
        hold.let_go(yard.loop)
        raw.ask(3, "after")
        assert raw.receive() == {"id": 3, "result": "after"}


def test_a_connection_that_goes_takes_its_calls_with_it(yard):
    hold = Hold()
    broker = yard.open(hold)
    with Raw(broker) as raw:
        raw.ask(1)
        raw.ask(2)
        assert hold.reaches(lambda held: held.open == 2)
    assert hold.reaches(lambda held: held.open == 0)
    assert yard.settles(lambda: broker.admission.is_idle and broker.connection_count == 0)


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1},
        {"id": 1, "do": "everything"},
        {"id": 1, "do": ["mcp"]},
        {"id": 1, "do": "mcp", "arguments": [1]},
        {"id": 1, "do": "mcp", "server": 5},
        {"id": 1, "do": "mcp", "tool": None},
        {"id": 1, "do": "mcp", "timeout": "1"},
        {"id": 1, "do": "mcp", "timeout": -1},
        {"id": 1, "do": "mcp", "timeout": True},
        {"id": 1, "do": "mcp", "timeout": float("nan")},
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_the_next_is_served(yard, frame):
    broker = yard.open()
    with Raw(broker) as raw:
        raw.send(frame)
        assert raw.receive()["error"]["kind"] == "invalid"
        raw.ask(2)
        assert raw.receive()["id"] == 2
        assert yard.on_loop(lambda: broker.admission.is_idle)


def test_an_answer_that_is_too_long_is_an_error_of_that_call_alone(yard):
    async def handler(request, progress):
        return "x" * int(request.arguments["size"])

    with Raw(yard.open(handler, frame_bytes=1000)) as raw:
        raw.ask(1, size=2000)
        assert "the limit is" in raw.receive()["error"]["message"]
        raw.ask(2, size=10)
        assert raw.receive()["result"] == "x" * 10


def test_an_answer_that_json_cannot_hold_is_an_error(yard):
    async def handler(request, progress):
        return object()

    assert "cannot be encoded as JSON" in error_of(yard, handler)["message"]


def test_half_a_character_comes_through(yard):
    async def handler(request, progress):
        return "\ud800"

    with Raw(yard.open(handler)) as raw:
        raw.ask(1)
        assert raw.receive()["result"] == "\ud800"


def test_the_folder_is_private_and_goes_with_the_broker(yard):
    broker = yard.open()
    assert stat.S_IMODE(os.stat(broker.folder).st_mode) == 0o700
    broker.close()
    broker.close()
    assert not os.path.exists(broker.folder)


def test_another_broker_takes_over_the_folder_of_one_that_was_killed(yard, tmp_path):
    async def handler(request, progress):
        return "new"

    first = Broker(str(tmp_path), "a", Hold(), yard.loop)
    second = Broker(str(tmp_path), "a", handler, yard.loop)
    first.close()
    with second, Raw(second) as raw:
        raw.ask(1)
        assert raw.receive()["result"] == "new"
    assert os.listdir(tmp_path) == []


def test_a_folder_with_a_long_name_is_served(yard, tmp_path):
    folder = tmp_path / ("x" * 150)
    folder.mkdir()
    with Broker(str(folder), "a", Hold(), yard.loop) as broker:
        assert os.path.exists(broker.socket_path)


def test_closing_ends_calls_and_says_so(yard):
    hold = Hold()
    broker = yard.open(hold)
    with Raw(broker) as raw:
        raw.ask(1)
        assert hold.reaches(lambda held: held.open == 1)
        broker.close()
        assert hold.open == 0
        assert raw.receive()["error"] == {
            "kind": "lost",
            "message": "Toolyard closed the connection: the broker is closing.",
        }
        assert raw.is_closed


def test_it_can_be_closed_from_its_own_loop(yard):
    broker = yard.open()
    with Raw(broker) as raw:
        raw.ask(1)
        raw.receive()
        yard.on_loop(broker.close)
        assert raw.receive()["id"] == 0
    assert not os.path.exists(broker.folder)


def test_it_can_be_closed_when_its_loop_is_gone():
    loop = asyncio.new_event_loop()
    broker = Broker.open("a", Hold(), loop)
    loop.close()
    broker.close()
    assert not os.path.exists(broker.folder)


def test_nothing_is_left_running(yard):
    before = set(threading.enumerate())
    broker = yard.open(Hold())
    with Raw(broker) as raw:
        raw.ask(1)
        broker.close()
    assert set(threading.enumerate()) <= before
    assert yard.settles(lambda: len(asyncio.all_tasks(yard.loop)) == 1)  # the one that looks

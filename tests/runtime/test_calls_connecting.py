"""How calls reach their broker: from loops, threads and other processes, and when it goes away."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

import _massgen_runtime
import toolyard_runtime
from toolyard.codemode.broker import Broker
from toolyard_runtime import broker as runtime_broker
from toolyard_runtime import (
    call_mcp_tool,
    call_mcp_tool_sync,
)
from toolyard_runtime.errors import BrokerLost

from .calling import DEADLINE, Handler, script

FREE = 500
"""A descriptor that nothing here has."""


def test_each_loop_has_a_connection_of_its_own_and_gives_it_up(broker):
    async def ask():
        return (await call_mcp_tool("s", "t")).text

    for _ in range(20):
        assert asyncio.run(ask()) == "a:s:t"
    assert broker.connection_count <= 2


def test_calls_in_flight_are_lost_with_the_broker_and_the_next_one_connects_anew(thread, monkeypatch, tmp_path):
    handler = Handler()
    lost = []

    def ask():
        try:
            call_mcp_tool_sync("s", "hold")
        except BrokerLost as error:
            lost.append(error)

    async def ask_in_a_loop():
        with pytest.raises(BrokerLost) as caught:
            await call_mcp_tool("s", "hold")
        lost.append(caught.value)
        return (await _again()).text

    async def _again():
        await asyncio.to_thread(restarted.wait, DEADLINE)
        return await call_mcp_tool("s", "t")

    restarted = threading.Event()
    loops = []
    with Broker(str(tmp_path), "a", handler, thread.loop) as first:
        monkeypatch.setenv("TOOLYARD_BROKER", first.socket_path)
        asking = [
            threading.Thread(target=ask),
            threading.Thread(target=lambda: loops.append(asyncio.run(ask_in_a_loop()))),
        ]
        for one in asking:
            one.start()
            assert handler.held.acquire(timeout=DEADLINE)
    with Broker(str(tmp_path), "b", handler, thread.loop):
        restarted.set()
        for one in asking:
            one.join(DEADLINE)
        assert call_mcp_tool_sync("s", "t").text == "b:s:t"
    assert loops == ["b:s:t"]
    assert len(lost) == 2
    for error in lost:
        assert "s.hold may or may not have been carried out. The next call reconnects." in str(error)
        assert (error.server, error.tool) == ("s", "hold")


def test_a_connection_that_went_stale_is_replaced_without_a_word(thread, monkeypatch, tmp_path):
    async def main():
        first = Broker(str(tmp_path), "a", Handler(), thread.loop)
        assert (await call_mcp_tool("s", "t")).text == "a:s:t"
        assert call_mcp_tool_sync("s", "t").text == "a:s:t"
        first.close()
        with Broker(str(tmp_path), "b", Handler(), thread.loop):
            assert (await call_mcp_tool("s", "t")).text == "b:s:t"
            assert call_mcp_tool_sync("s", "t").text == "b:s:t"

    monkeypatch.setenv("TOOLYARD_BROKER", f"{tmp_path}/socket")
    asyncio.run(main())


def test_a_broker_that_is_killed_in_the_middle_is_told_from_one_that_answers(tmp_path, monkeypatch):
    code = (
        "import asyncio, sys\nfrom toolyard.codemode.broker import Broker\n"
        "async def handler(request, progress):\n    print('called', flush=True)\n    await asyncio.sleep(100)\n"
        "async def main():\n    Broker(sys.argv[1], 'a', handler, asyncio.get_running_loop())\n"
        "    print('up', flush=True)\n    await asyncio.sleep(100)\nasyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout.readline() == "up\n"
        monkeypatch.setenv("TOOLYARD_BROKER", f"{tmp_path}/socket")
        killing = threading.Thread(target=lambda: (host.stdout.readline(), host.kill()))
        killing.start()
        with pytest.raises(BrokerLost, match="The connection to Toolyard ended"):
            call_mcp_tool_sync("s", "t")
        killing.join(DEADLINE)
    with pytest.raises(BrokerLost, match=r"cannot be reached .* call again in a moment"):
        call_mcp_tool_sync("s", "t")


def test_without_a_broker_it_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv("TOOLYARD_BROKER", raising=False)
    with pytest.raises(RuntimeError, match="`toolyard exec --config"):
        call_mcp_tool_sync("s", "t")
    with pytest.raises(RuntimeError, match="`toolyard exec --config"):
        asyncio.run(call_mcp_tool("s", "t"))


def test_a_descriptor_that_was_closed_says_how_to_hand_it_on(monkeypatch):
    monkeypatch.setenv("TOOLYARD_BROKER", "fd:999")
    with pytest.raises(BrokerLost, match="pass_fds"):
        call_mcp_tool_sync("s", "t")


def test_a_forked_child_has_connections_of_its_own(broker):
    code = (
        "import asyncio, os\nfrom toolyard_runtime import call_mcp_tool, call_mcp_tool_sync as ask\n"
        "async def both(n):\n"
        "    return [(await call_mcp_tool('s', 't', {'n': n + i})).structured['n'] for i in range(3)]\n"
        "print(f\"{ask('s', 't', {'n': 0}).structured} {asyncio.run(both(1))}\", flush=True)\n"
        "for child in range(3):\n"
        "    if os.fork() == 0:\n"
        '        os.write(1, f\'{ask("s", "t", dict(n=child)).structured} {asyncio.run(both(child))}\\n\'.encode())\n'
        "        os._exit(0)\n"
        "for child in range(3):\n    assert os.wait()[1] == 0\n"
        "print(ask('s', 't', {'n': 9}).structured, asyncio.run(both(9)))"
    )
    lines = script(code, broker).splitlines()
    assert (lines[0], lines[-1]) == ("{'n': 0} [1, 2, 3]", "{'n': 9} [9, 10, 11]")
    assert sorted(lines[1:-1]) == [f"{{'n': {n}}} [{n}, {n + 1}, {n + 2}]" for n in range(3)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_may_call(broker, method, tmp_path):
    file = tmp_path / "pooled.py"
    file.write_text(
        "import multiprocessing, sys\nfrom toolyard_runtime import call_mcp_tool_sync\n"
        "def ask(n): return call_mcp_tool_sync('s', 't', {'n': n}).structured['n']\n"
        "if __name__ == '__main__':\n    ask(0)\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool: print(pool.map(ask, range(20)))\n"
        "    print(ask(1))\n"
    )
    code = f"import runpy\nrunpy.run_path({str(file)!r}, run_name='__main__')"
    if method == "spawn":
        code = f"import subprocess, sys\nsubprocess.run([sys.executable, {str(file)!r}, sys.argv[1]], check=True)"
    assert script(code, broker, method) == f"{list(range(20))}\n1\n"


def test_it_leaves_no_warning_behind(broker):
    code = (
        "import asyncio, gc\nfrom toolyard_runtime import call_mcp_tool, call_mcp_tool_sync\n"
        "async def main(): return (await call_mcp_tool('s', 't')).text\n"
        "asyncio.run(main(), debug=True); asyncio.run(main()); call_mcp_tool_sync('s', 't'); gc.collect()\n"
        "print('fine')"
    )
    assert script(code, broker) == "fine\n"


def test_both_names_of_the_package_offer_the_same():
    for name in toolyard_runtime.__all__:
        assert getattr(_massgen_runtime, name) is getattr(toolyard_runtime, name)
    assert set(_massgen_runtime.__all__) == set(toolyard_runtime.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = toolyard_runtime.nothing


def test_importing_the_runtime_costs_next_to_nothing():
    code = (
        "import sys, time\nbefore, at = set(sys.modules), time.process_time()\nimport toolyard_runtime\n"
        "spent = time.process_time() - at\nassert set(sys.modules) - before == {'toolyard_runtime'}\nprint(spent)"
    )
    spent = min(float(subprocess.check_output([sys.executable, "-c", code], timeout=DEADLINE)) for _ in range(3))
    assert spent < 0.03


def test_a_hand_gives_connections_until_there_are_too_many(thread, monkeypatch):
    from toolyard.codemode.broker import BrokerLimits
    from toolyard_runtime import inherited_socket

    with Broker.open("a", Handler(), thread.loop, BrokerLimits(connections=2)) as broker:
        inherited_socket.connect_at_descriptor(f"{broker.folder}/hand", FREE)
        try:
            monkeypatch.setenv("TOOLYARD_BROKER", f"fd:{FREE}")
            first, second = runtime_broker.BlockingConnection(), runtime_broker.BlockingConnection()
            assert first.send(runtime_broker.encode_frame({"id": 1, "do": "mcp", "tool": "t"}))
            assert first.receive()["id"] == 1
            with pytest.raises(BrokerLost, match="too many connections"):
                runtime_broker.BlockingConnection()
            second.close()
            until = time.monotonic() + DEADLINE
            while broker.connection_count > 1 and time.monotonic() < until:
                time.sleep(0.01)
            third = runtime_broker.BlockingConnection()
            assert third.send(runtime_broker.encode_frame({"id": 1, "do": "mcp", "tool": "t"}))
            assert third.receive()["id"] == 1
        finally:
            os.close(FREE)

"""What every sandbox must do for the calls of tools: lead code to its own agent's broker, and to no other."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator
from typing import Any

from tests.support.sandbox_suite.kit import Kit
from toolyard.codemode.broker import Broker, BrokerRequest, UpstreamProgress
from toolyard.core.loop_thread import LoopThread
from toolyard.sandbox import guest_layout

_ASK = "from toolyard_runtime import call_mcp_tool, call_mcp_tool_sync\n"
_TOOL_FILE = "def shout(text):\n    return text.upper()\n"


async def _echo(request: BrokerRequest, progress: UpstreamProgress) -> Any:
    progress(1, 1, "")
    said = f"{request.agent}:{request.tool}:{request.arguments.get('n')}"
    return {"content": [{"type": "text", "text": said}]}


@contextlib.contextmanager
def brokers(*agents: str) -> Generator[tuple[Broker, ...]]:
    with LoopThread() as thread, contextlib.ExitStack() as opened:
        yield tuple(opened.enter_context(Broker.open(agent, _echo, thread.loop)) for agent in agents)


class Brokered:
    def test_code_reaches_its_broker(self, kit: Kit) -> None:
        with brokers("a") as (broker,):
            box = kit.open(broker=broker.folder)
            assert box.python(f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': 1}}).text").value == "'a:t:1'"
            assert box.python(f"{_ASK}(await call_mcp_tool('s', 't', {{'n': 2}})).text").value == "'a:t:2'"

    def test_many_calls_are_in_flight_at_once(self, kit: Kit) -> None:
        with brokers("a") as (broker,):
            code = (
                f"{_ASK}import asyncio\n"
                "said = await asyncio.gather(*(call_mcp_tool('s', 't', {'n': n}) for n in range(300)))\n"
                "[one.text for one in said] == [f'a:t:{n}' for n in range(300)]"
            )
            assert kit.open(broker=broker.folder).python(code).value == "True"

    def test_a_session_keeps_its_connection(self, kit: Kit) -> None:
        with brokers("a") as (broker,):
            box = kit.open(broker=broker.folder)
            for number in range(3):
                ran = box.python(f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': {number}}}).text", session="one")
                assert ran.value == f"'a:t:{number}'"
            assert broker.connection_count == 1

    def test_threads_and_forked_processes_reach_it_too(self, kit: Kit) -> None:
        code = (
            f"{_ASK}import os, sys, threading\ndef ask(n): print(call_mcp_tool_sync('s', 't', {{'n': n}}).text)\n"
            "ask(0)\nthread = threading.Thread(target=ask, args=(1,))\nthread.start(); thread.join()\n"
            "pid = os.fork()\nif pid == 0:\n ask(2); sys.stdout.flush(); os._exit(0)\nos.waitpid(pid, 0)\nask(3)"
        )
        with brokers("a") as (broker,):
            ran = kit.open(broker=broker.folder).python(code)
            assert sorted(ran.text.split()) == [f"a:t:{n}" for n in range(4)], ran.raised

    def test_a_script_that_a_command_starts_reaches_it(self, kit: Kit) -> None:
        kit.file("workspace/deep/script.py", f"{_ASK}print(call_mcp_tool_sync('s', 't', {{'n': 1}}).text)\n")
        with brokers("a") as (broker,):
            ran = kit.open(broker=broker.folder).command("cd deep && python3 script.py")
            assert ran.text == "a:t:1\n", ran.err

    def test_tool_files_are_imported_from_the_workspace_wherever_the_code_stands(self, kit: Kit) -> None:
        kit.file("workspace/servers/__init__.py", "")
        kit.file("workspace/servers/loud/__init__.py", _TOOL_FILE)
        kit.file("workspace/deep/script.py", "from servers.loud import shout\nprint(shout('from a script'))\n")
        with brokers("a") as (broker,):
            box = kit.open(broker=broker.folder)
            code = "import os; os.makedirs('deep', exist_ok=True); os.chdir('deep')\nfrom servers.loud import shout\n"
            assert box.python(f"{code}shout('x')").value == "'X'"
            ran = box.command("cd deep && python3 script.py")
            assert ran.text == "FROM A SCRIPT\n", ran.err

    def test_a_package_of_ones_own_stands_first_and_hides_no_tool(self, kit: Kit) -> None:
        kit.file("workspace/tools/web/__init__.py", _TOOL_FILE)
        kit.file("workspace/project/tools/__init__.py", "OWN = 1\n")
        kit.file("workspace/project/tools/mine.py", "MINE = 2\n")
        code = "import tools.mine, tools.web\nprint(tools.OWN, tools.mine.MINE, tools.web.shout('x'))\n"
        kit.file("workspace/project/script.py", code)
        with brokers("a") as (broker,):
            box = kit.open(broker=broker.folder)
            ran = box.python(f"import os, sys; os.chdir('project'); sys.path.insert(0, os.getcwd())\n{code}")
            assert ran.text == "1 2 X\n", ran.raised
            ran = box.command("cd project && python3 script.py")
            assert ran.text == "1 2 X\n", ran.err

    def test_the_other_name_of_the_runtime_works_too(self, kit: Kit) -> None:
        code = "from _massgen_runtime import call_mcp_tool\nprint((await call_mcp_tool('s', 't', {'n': 1})).text)\n"
        script = (
            f"import asyncio\nasync def main():\n    {code.replace(chr(10), chr(10) + '    ')}\nasyncio.run(main())\n"
        )
        kit.file("workspace/script.py", script)
        with brokers("a") as (broker,):
            box = kit.open(broker=broker.folder)
            ran = box.python(code)
            assert ran.text == "a:t:1\n", ran.raised
            ran = box.command("python3 script.py")
            assert ran.text == "a:t:1\n", ran.err

    def test_without_a_broker_there_is_none(self, kit: Kit) -> None:
        box = kit.open()
        assert "`toolyard exec --config" in box.python(f"{_ASK}call_mcp_tool_sync('s', 't')").raised
        assert box.command(f"ls {guest_layout.BROKER}; env | grep TOOLYARD_BROKER").out == b""

    def test_another_agents_broker_is_out_of_reach(self, kit: Kit) -> None:
        with brokers("a", "b") as (ours, theirs):
            box = kit.open(broker=ours.folder)
            code = (
                f"import os, socket\nos.environ['TOOLYARD_BROKER'] = {theirs.socket_path!r}\n"
                f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': 1}}).text"
            )
            ran = box.python(code)
            if kit.strength.confines_files:
                assert "cannot be reached" in ran.raised
                assert box.command(f"ls {theirs.folder}").out == b""
            else:
                assert ran.value == "'b:t:1'"
            assert box.python(f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': 1}}).text").value == "'a:t:1'"

    def test_its_folder_cannot_be_changed_from_inside(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # there it is the user's own
        with brokers("a") as (broker,):
            before = sorted(os.listdir(broker.folder))
            places = (guest_layout.BROKER, broker.folder)
            tries = "; ".join(f"mv {at}/socket {at}/gone; rm -f {at}/*; echo x > {at}/new" for at in places)
            box = kit.open(broker=broker.folder)
            box.command(tries)
            box.python(
                f"import os\nfor at in {places!r}:\n try: os.rename('mine', at + '/socket')\n except OSError: 0"
            )
            assert sorted(os.listdir(broker.folder)) == before == ["hand", "socket"]
            assert box.python(f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': 1}}).text").value == "'a:t:1'"

    def test_a_new_broker_on_the_folder_is_found_by_the_next_run(self, kit: Kit) -> None:
        code = f"{_ASK}call_mcp_tool_sync('s', 't', {{'n': 1}}).text"
        folder = os.path.dirname(kit.file("broker/kept", ""))
        with LoopThread() as thread:
            with Broker(folder, "a", _echo, thread.loop):
                box = kit.open(broker=folder)
                assert box.python(code).value == "'a:t:1'"
            lost = box.python(code).raised
            assert "BrokerLost" in lost
            with Broker(folder, "again", _echo, thread.loop):
                box.python(code)  # in the sandbox without namespaces this worker was there before the broker
                assert box.python(code).value == "'again:t:1'"

    def test_walls_stay_as_they_are(self, kit: Kit) -> None:
        """Being led to the broker opens no other socket."""
        with brokers("a") as (broker,), socket.socket(socket.AF_UNIX) as server:
            here = os.open(kit.outside, os.O_PATH)
            server.bind(f"/proc/self/fd/{here}/s")
            os.close(here)
            server.listen()
            path = os.path.relpath(f"{kit.outside}/s", kit.workspace)
            code = f"import socket\nsocket.socket(socket.AF_UNIX).connect({path!r})"
            ran = kit.open(broker=broker.folder).python(code)
            assert bool(ran.raised) is kit.strength.confines_files

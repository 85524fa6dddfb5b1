"""Sockets and settings of others on the same machine: no command and no tool of an agent reaches them."""

import contextlib
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, ToolyardError
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.run_folder import RunFolder
from toolyard.linux.unix_socket import bind_privately

MODES = [PermissionMode.STRICT, PermissionMode.MODERATE]
CONNECT = "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({path!r})\nprint('REACHED', 6 * 7)"
LOGIN = "a-login-of-another-run"


@dataclass
class Agent:
    yard: Yard

    async def run(self, tool, **arguments):
        """What came back, of a failure too."""
        try:
            return (await self.yard.dispatch(Call(tool, arguments, "test"))).text
        except ToolyardError as error:
            return error.message

    async def reaches(self, path):
        code = CONNECT.format(path=path)
        said = [await self.run("execute_python", code=code), await self.run("Bash", command=f'python3 -c "{code}"')]
        return any("REACHED 42" in text for text in said)


@pytest.fixture
def open_agent(tmp_path):
    """Agents whose temp folder is the machine's own, as it is for every user."""
    with contextlib.ExitStack() as opened:

        def opener(name, mode):
            for folder in (name, "home", "documents"):
                (tmp_path / folder).mkdir(exist_ok=True)
            settings = Settings(f"{tmp_path}/home", f"{tmp_path}/state", "/tmp", f"{tmp_path}/documents")
            options = YardOptions(
                workspace=str(tmp_path / name), config=Config(), settings=settings, mode=mode, toolset=Toolset.ALL
            )
            return Agent(opened.enter_context(Yard.open(options)))

        yield opener


@pytest.fixture
def listener():
    """A listening socket where tmux and ssh-agent have theirs."""
    folder = tempfile.mkdtemp(prefix="tmux-", dir="/tmp")
    with socket.socket(socket.AF_UNIX) as bound:
        bind_privately(bound, f"{folder}/default")
        bound.listen()
        yield f"{folder}/default"
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", MODES)
async def test_a_socket_in_the_hosts_temp_folder_is_not_reached(open_agent, listener, mode):
    agent = open_agent("a", mode)
    await agent.run("Bash", command="true")
    assert not await agent.reaches(listener)
    # One that is made while the sandbox stands is covered by nothing.
    with socket.socket(socket.AF_UNIX) as later:
        bind_privately(later, f"{listener}-later")
        later.listen()
        assert not await agent.reaches(f"{listener}-later")


@pytest.mark.parametrize("mode", MODES)
async def test_another_agents_broker_is_not_reached(open_agent, mode):
    one, other = open_agent("a", mode), open_agent("b", mode)
    await other.run("execute_python", code="print(1)")
    folder = other.yard.codemode.broker_folder()
    assert os.path.exists(f"{folder}/socket")
    assert not folder.startswith("/tmp/toolyard-")
    assert not await one.reaches(f"{folder}/socket")
    assert not await one.reaches(f"{folder}/hand")


def test_the_sockets_of_a_broker_are_the_owners_alone(open_agent):
    before = os.umask(0)
    try:
        folder = open_agent("a", PermissionMode.STRICT).yard.codemode.broker_folder()
    finally:
        os.umask(before)
    modes = {name: os.stat(f"{folder}/{name}").st_mode & 0o777 for name in os.listdir(folder)}
    assert modes == {"socket": 0o600, "hand": 0o600}
    assert os.stat(folder).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", MODES)
async def test_the_settings_of_another_drive_run_are_neither_read_nor_changed(open_agent, mode):
    with RunFolder() as run:
        run.write({"settings.json": LOGIN})
        path = os.path.join(run.path, "settings.json")
        agent = open_agent("a", mode)
        for tool, arguments in (
            ("Read", {"file_path": path}),
            ("Grep", {"pattern": "login", "path": run.path, "output_mode": "content"}),
            ("Bash", {"command": f"cat {path}; echo changed > {path}; rm -f {path}"}),
            ("execute_python", {"code": f"print(open({path!r}).read())"}),
        ):
            assert LOGIN not in await agent.run(tool, **arguments)
        with pytest.raises(SecurityError):
            await agent.yard.dispatch(Call("Write", {"file_path": path, "content": "changed"}, "test"))
        with open(path, encoding="utf-8") as file:
            assert file.read() == LOGIN


async def test_the_settings_of_a_run_are_hidden_where_a_root_of_the_agent_holds_them(
    open_agent, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "documents"))
    agent = open_agent("a", PermissionMode.MODERATE)
    with RunFolder() as run:
        run.write({"settings.json": LOGIN})
        path = os.path.join(run.path, "settings.json")
        assert run.path.startswith(f"{tmp_path}/documents/")
        for tool, arguments in (("Read", {"file_path": path}), ("Bash", {"command": f"cat {path}"})):
            assert LOGIN not in await agent.run(tool, **arguments)

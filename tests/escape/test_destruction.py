"""Commands that delete everything they can: what is not the agent's stays, and careless ones are stopped at once."""

import contextlib
import os
import time

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, ToolyardError
from toolyard.core.permission_modes import PermissionMode

pytestmark = pytest.mark.destructive

CARELESS = (
    "rm -rf /",
    "rm -rf --no-preserve-root /",
    "rm -rf /*",
    'rm -rf "$NOT_SET"/*',
    "rm -rf ~/ /",
    "cd / && rm -rf *",
)
SOON = 10.0
SCRIPT = "rm -rf --no-preserve-root / > /dev/null 2>&1; rm -rf /* > /dev/null 2>&1; true"
WALK_SECONDS = 45.0
"""Of a walk over all that a sandbox shows, most of it the system's own files."""
MODES = [mode for mode in PermissionMode if mode is not PermissionMode.PLAN]


class Machine:
    """Files of a user, all below this namespace's own /tmp: the home, documents, the temp folder and a workspace."""

    def __init__(self, base):
        self.base = base
        kept = ("home/notes.txt", "home/Documents/letter.txt", "temp/theirs")
        self.kept = [base / path for path in kept]
        self.workspace = base / "home" / "project"
        for path in (*self.kept, self.workspace / "main.py"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("mine")

    def settings(self):
        home = f"{self.base}/home"
        return Settings(home, f"{self.base}/state", f"{self.base}/temp", f"{home}/Documents")

    def is_whole(self):
        return all(path.read_text() == "mine" for path in self.kept)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@contextlib.contextmanager
def opened(machine, mode, **config):
    options = YardOptions(
        str(machine.workspace),
        Config.model_validate(config),
        machine.settings(),
        mode=mode,
        toolset=Toolset.ALL,
    )
    with Yard.open(options) as yard:
        yield yard


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", CARELESS)
async def test_a_careless_command_is_refused_at_once_where_nobody_can_be_asked(machine, command, mode):
    with opened(machine, mode) as yard:
        began = time.monotonic()
        with pytest.raises(SecurityError):
            await yard.dispatch(Call("Bash", {"command": command}, "test"))
        assert time.monotonic() - began < SOON
    assert machine.is_whole()
    assert (machine.workspace / "main.py").read_text() == "mine"


@pytest.mark.parametrize("mode", [PermissionMode.STRICT, PermissionMode.MODERATE])
async def test_a_script_that_deletes_everything_gets_at_nothing_but_the_workspace(machine, mode):
    (machine.workspace / "destroy.sh").write_text(SCRIPT)
    with opened(machine, mode) as yard:
        began = time.monotonic()
        with contextlib.suppress(ToolyardError):
            await yard.dispatch(Call("Bash", {"command": "bash destroy.sh", "timeout": 120_000}, "test"))
        assert time.monotonic() - began < WALK_SECONDS
        assert not (machine.workspace / "main.py").exists()  # it did what it could
    assert machine.is_whole()
    assert os.path.isdir("/tmp")


async def test_home_in_a_command_on_the_host_is_the_callers(machine):
    """An `rm -rf ~/*` deletes what the caller's own shell would have deleted, and no other home."""
    command = "rm -rf ~/notes.txt"
    allowed = {"code_execution": {"allow_destructive": True}}
    with opened(machine, PermissionMode.BYPASS, toolyard=allowed) as yard:
        await yard.dispatch(Call("Bash", {"command": command}, "test"))
    assert not (machine.base / "home" / "notes.txt").exists()

"""Commands that run on the host have the caller's own home, name, language and terminal."""

import os
from dataclasses import replace

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.permission_modes import PermissionMode

SAYS = 'echo ~ "$HOME" "$USER" "$LANG" "$TERM"'


@pytest.mark.parametrize(
    ("mode", "config"),
    [
        (PermissionMode.BYPASS, {}),
        (PermissionMode.STRICT, {"toolyard": {"code_execution": {"mode": "none"}}}),
    ],
)
async def test_a_command_on_the_host_has_the_callers_variables(tmp_path, monkeypatch, mode, config):
    for name, value in (("USER", "ada"), ("LANG", "C.UTF-8"), ("TERM", "xterm"), ("HOME", str(tmp_path / "home"))):
        monkeypatch.setenv(name, value)
    for name in ("ws", "home"):
        (tmp_path / name).mkdir()
    settings = replace(Settings.from_environment(), state_home=str(tmp_path / "state"))
    options = YardOptions(str(tmp_path / "ws"), Config.model_validate(config), settings, mode=mode)
    with Yard.open(options) as yard:
        said = (await yard.dispatch(Call("Bash", {"command": SAYS}, "test"))).text
    home = str(tmp_path / "home")
    assert said.splitlines()[0].split() == [home, home, "ada", "C.UTF-8", "xterm"]
    assert os.path.isdir(home)

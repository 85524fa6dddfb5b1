"""A workspace opened as the assistant opens it, and the Gate of one call in it."""

from typing import Any

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import CallContext


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def open_gate(tmp_path, workspace):
    """Opens the workspace and gives the Gate of a call; `config` as it stands in the file."""
    opened: list[Yard] = []

    def opener(mode: PermissionMode = PermissionMode.PLAN, *, at: Any = None, **config: Any) -> CallContext:
        home = str(tmp_path / "home")
        options = YardOptions(
            workspace=str(at or workspace),
            config=Config.model_validate(config),
            settings=Settings(home, f"{home}/state", str(tmp_path / "temp"), f"{home}/Documents"),
            mode=mode,
            state_home=str(tmp_path / "state"),
        )
        for name in ("home", "temp"):
            (tmp_path / name).mkdir(exist_ok=True)
        opened.append(Yard.open(options))
        return CallContext(opened[-1].dispatch._services, Call("precommit", {}, "test", session="s", id="c1"))

    yield opener
    for yard in opened:
        yard.close()


@pytest.fixture
def gate(open_gate):
    return open_gate()

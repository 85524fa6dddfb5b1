"""A workspace opened as a surface opens it. Every result is held against its tool's output schema."""

import os
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call, Result, deny_without_asking
from toolyard.core.errors import ToolyardError
from toolyard.core.permission_modes import PermissionMode


@dataclass
class Workbench:
    path: str
    yard: Yard

    async def call(
        self, tool: str, /, *, caller: str = "s", ask: Any = deny_without_asking, **arguments: Any
    ) -> Result:
        """`caller` names the session. Arguments that are no Python names come as `**{"-n": True}`."""
        result = await self.yard.dispatch(
            Call(tool, arguments, surface="test", session=caller, ask=ask, hidden="/" in tool)
        )
        served = self.yard.dispatch.tools.get(tool) or self.yard.dispatch._hidden_tools[tool]
        jsonschema.validate(result.structured, served.output, jsonschema.Draft202012Validator)
        return result

    async def fails(self, kind: type[ToolyardError], tool: str, /, **arguments: Any) -> ToolyardError:
        """The error of a call that must fail in this way."""
        with pytest.raises(kind) as caught:
            await self.call(tool, **arguments)
        assert type(caught.value) is kind
        return caught.value

    def write(self, name: str, content: str | bytes = "", *, mtime: float | None = None) -> str:
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def names(self) -> list[str]:
        """Every file and folder there is, relative to the workspace."""
        return sorted(
            os.path.relpath(os.path.join(folder, name), self.path)
            for folder, folders, files in os.walk(self.path)
            for name in folders + files
        )


@pytest.fixture
def open_bench(tmp_path):
    """Opens a workspace in a temporary folder, as often as it is called; `config` as it stands in the file."""
    opened: list[Yard] = []

    def opener(mode: PermissionMode | None = None, toolset: Toolset = Toolset.ALL, **config: Any) -> Workbench:
        for name in ("ws", "home", "temp"):
            (tmp_path / name).mkdir(exist_ok=True)
        home = str(tmp_path / "home")
        settings = Settings(home, f"{home}/state", str(tmp_path / "temp"), f"{home}/Documents")
        options = YardOptions(
            workspace=str(tmp_path / "ws"),
            config=Config.model_validate(config),
            settings=settings,
            mode=mode,
            toolset=toolset,
            state_home=str(tmp_path / "state"),
        )
        opened.append(Yard.open(options))
        return Workbench(str(tmp_path / "ws"), opened[-1])

    yield opener
    for yard in opened:
        yard.close()


@pytest.fixture
def bench(open_bench):
    return open_bench()

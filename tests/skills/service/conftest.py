"""A workspace without servers, and agents that keep skills in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import ApprovalCallback, Call, deny_without_asking
from toolyard.storage.audit_reader import read


@dataclass
class Place:
    folder: Path
    yards: list[Yard] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.folder / "ws"

    def open(self, agent: str | None = "a", toolset: Toolset = Toolset.CODE, **config: Any) -> Yard:
        home = str(self.folder / "home")
        yard = Yard.open(
            YardOptions(
                workspace=str(self.workspace),
                config=Config.model_validate(config),
                settings=Settings(home, f"{home}/state", str(self.folder / "temp"), f"{home}/Documents"),
                agent=agent,
                toolset=toolset,
                state_home=str(self.folder / "state"),
            )
        )
        self.yards.append(yard)
        return yard

    def events(self, yard: Yard) -> list[tuple[str, str, str]]:
        return [(line.event.tool, line.event.decision, line.event.outcome) for line in read(yard.state)]


@pytest.fixture
def place(tmp_path: Path):
    made = Place(tmp_path.resolve())
    for name in ("ws", "home", "temp"):
        (made.folder / name).mkdir()
    yield made
    for yard in made.yards:
        yard.close()


async def told(yard: Yard, code: str, ask: ApprovalCallback = deny_without_asking) -> str:
    """What the code printed, and what it raised."""
    call = Call("execute_python", {"code": code}, "test", agent=yard.agent, ask=ask)
    fields = (await yard.dispatch(call)).structured
    return f"{fields['stdout']}{fields['error'] or ''}".strip()

"""The assistant as a client meets it: a process of its own, over stdio, with a scripted model behind it.

Starting one takes a second and more. So one of each kind serves a whole worker: the project is emptied and the script
replaced for each test. Tests that stop a server, or want a configuration of their own, have a `fresh` one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.assistant_process import UNLIMITED, Assisted, assisted, emptied
from toolyard.testing.mock_model import Say
from toolyard.testing.mock_model.scripts import as_script


class Servers:
    """Those that are shared, by the API of their model. They own their processes until the session ends."""

    def __init__(self, base: Path, opened: ExitStack) -> None:
        self.base, self.project = base, base / "project"
        self._opened = opened
        self._by_api: dict[str, Assisted] = {}
        for folder in ("project", "home"):
            (base / folder).mkdir()

    def start(self, script: Any, *options: str, config: Any, base: Path, **more: str) -> Any:
        file = base / "assistant.yaml"
        file.write_text(json.dumps({"assistant": config}))
        chosen = () if "--config" in options else ("--config", str(file))
        return assisted(str(self.project), script, *chosen, *options, home=str(base / "home"), **more)

    def shared(self, script: Any, api: str) -> Assisted:
        served = self._by_api.get(api)
        if served is None:
            starting = self.start(Say("yes"), config=UNLIMITED, base=self.base, api=api)
            served = self._by_api[api] = self._opened.enter_context(starting)
        served.model.script = as_script(script)
        served.model.all_requests.clear()
        served.model.steps.clear()
        served.notifications.clear()
        return served


@pytest.fixture(scope="session")
def servers(tmp_path_factory) -> Generator[Servers]:
    with ExitStack() as opened:
        yield Servers(tmp_path_factory.mktemp("assistants").resolve(), opened)


@pytest.fixture
def project(servers) -> Path:
    """The folder that every assistant here serves, empty."""
    return emptied(servers.project)


@pytest.fixture
def serve(servers, project) -> Callable[..., Assisted]:
    """`serve(script, api)`: an assistant without rate limits."""
    return lambda script, api="gemini": servers.shared(script, api)


@pytest.fixture
def fresh(servers, project, tmp_path) -> Generator[Callable[..., Assisted]]:
    """`fresh(script, *options, config={...})`: one of its own. Those of one test share their home."""
    (tmp_path / "home").mkdir()
    with ExitStack() as opened:

        def start(script: Any, *options: str, config: Any = UNLIMITED, **more: str) -> Assisted:
            return opened.enter_context(servers.start(script, *options, config=config, base=tmp_path, **more))

        yield start

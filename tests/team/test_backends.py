"""Every backend behind an API, through its own SDK; those that are CLIs are in `tests/e2e/runs`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.backend_suite.scenarios import Backend, Ran, Scenario, run_scenario
from tests.support.backend_suite.suite import Backends


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Callable[[str, Scenario], Ran]:
    """Runs each scenario once for all sentences about it."""
    kept: dict[tuple[str, Scenario], Ran] = {}

    def run(kind: str, scenario: Scenario) -> Ran:
        if (kind, scenario) not in kept:
            base = tmp_path_factory.mktemp(kind).resolve()
            variables = {"HOME": str(base / "home"), "PATH": "/usr/bin:/bin"}
            kept[kind, scenario] = asyncio.run(run_scenario(Backend(kind, kind), scenario, str(base), variables))
        return kept[kind, scenario]

    return run


@pytest.fixture(params=["gemini", "openai", "claude"])
def ran(request, done) -> Callable[[Scenario], Ran]:
    return lambda scenario: done(request.param, scenario)


class TestBackends(Backends):
    pass

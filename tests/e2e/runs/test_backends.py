"""Every backend that is a CLI, from npm: the same sentences as those of `tests/team/test_backends.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.e2e.runs.backends import BACKENDS
from tests.support.backend_suite.scenarios import SCENARIOS, Ran, Scenario, run_scenario
from tests.support.backend_suite.suite import Backends

SIDE_BY_SIDE = 6
"""Runs at a time. Much of one is waiting."""
SECONDS = 460.0


@pytest.fixture(scope="session")
def done(request, island, user, tmp_path_factory) -> Callable[[str, Scenario], Ran]:
    """Runs all that the selected tests may want at once, when the first of them asks."""
    named = {item.callspec.params.get("ran") for item in request.session.items if hasattr(item, "callspec")}
    kinds = [kind for kind in BACKENDS if kind in named]
    ended: dict[tuple[str, Scenario], Ran | Exception] = {}

    async def all_of_them() -> None:
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(kind: str, scenario: Scenario) -> None:
            async with room:
                base = str(tmp_path_factory.mktemp(kind).resolve())
                try:
                    ended[kind, scenario] = await run_scenario(BACKENDS[kind], scenario, base, user)
                except Exception as error:  # noqa: BLE001 - told by the test that wants this one
                    ended[kind, scenario] = error

        await asyncio.gather(*(one(kind, scenario) for scenario in SCENARIOS for kind in kinds))

    def found(kind: str, scenario: Scenario) -> Ran:
        if not ended:
            island.run(all_of_them(), SECONDS)
        outcome = ended[kind, scenario]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return found


@pytest.fixture(params=[*BACKENDS])
def ran(request, done) -> Callable[[Scenario], Ran]:
    return lambda scenario: done(request.param, scenario)


class TestBackends(Backends):
    pass

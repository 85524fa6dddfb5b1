"""Every real CLI that we drive, in one suite: see `trials.py` for how they run."""

from __future__ import annotations

import pytest

from tests.e2e.drivers.clients import CLIS
from tests.e2e.drivers.island import Island
from tests.e2e.drivers.trials import Trials


def _given(metafunc) -> set[str]:
    """What the test says itself that it is run with."""
    names: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        names |= {mark.args[0]} if isinstance(mark.args[0], str) else set(mark.args[0])
    return names


def pytest_generate_tests(metafunc):
    if "cli" in metafunc.fixturenames and "cli" not in _given(metafunc):
        metafunc.parametrize("cli", CLIS)


@pytest.fixture(scope="session")
def island():
    island = Island()
    yield island
    island.close()


@pytest.fixture(scope="session")
def trials(request, npm, island, tmp_path_factory) -> Trials:
    """Runs only what the selected tests want."""
    wanted = {item.callspec.params.get("cli") for item in request.session.items if hasattr(item, "callspec")}
    path = f"{npm.node.parent}:{npm.folder}/node_modules/.bin:/usr/bin:/bin"
    return Trials(tmp_path_factory.mktemp("drivers"), island, path, {cli for cli in wanted if cli in CLIS})

"""`toolyard run` with real CLIs in its teams, on an island without a network (`tests/e2e/drivers/island.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.drivers.island import Island


@pytest.fixture(scope="session")
def island() -> Iterator[Island]:
    island = Island()
    yield island
    island.close()


@pytest.fixture(scope="session")
def user(npm, tmp_path_factory) -> dict[str, str]:
    """The variables of a user who has the CLIs installed and nothing else."""
    home = tmp_path_factory.mktemp("home")
    return {"PATH": f"{npm.node.parent}:{npm.folder}/node_modules/.bin:/usr/bin:/bin", "HOME": str(home)}

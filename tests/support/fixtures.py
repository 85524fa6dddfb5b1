"""Fixtures that tests of several packages share."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.dispatch_probe import Bench
from toolyard.app.yard import Yard
from toolyard.files.mounts import Mounts
from toolyard.files.roots import Root
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.landlock import landlock_sandbox
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import Tier


@pytest.fixture
def bench(tmp_path):
    """A workspace with one file, beside a file that is outside."""
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (tmp_path / "outside.txt").write_text("o")
    with closing(Mounts(str(folder))) as mounts:
        yield Bench(str(folder), mounts)


@pytest.fixture
def opened(bench):
    """`bench.dispatch`, closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(bench.dispatch(*arguments, **options))
        return made[-1]

    yield make
    bench.log.broken = False
    for dispatch in made:
        dispatch.close()


TIERS = {
    Tier.BUBBLEWRAP: lambda: bubblewrap_sandbox(find_bubblewrap()),
    Tier.NAMESPACES: lambda: namespaces_sandbox(find_unshare()),
    Tier.LANDLOCK: landlock_sandbox,
}


@pytest.fixture(params=TIERS, ids=[tier.value for tier in TIERS])
def walls(request, monkeypatch):
    """Each kind of sandbox in its turn, for every Yard that is opened."""
    tier = request.param
    monkeypatch.setattr(Yard, "_select_sandbox", lambda _: SandboxChoice(tier, TIERS[tier]))


@pytest.fixture
def root(tmp_path: Path):
    opened = Root(str(tmp_path))
    yield opened
    opened.close()

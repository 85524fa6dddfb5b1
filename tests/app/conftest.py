from contextlib import closing

import pytest

from toolyard.fs.mounts import Mounts
from toolyard.testing.probes import Bench


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

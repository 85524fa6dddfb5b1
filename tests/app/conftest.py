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

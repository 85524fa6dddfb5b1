from __future__ import annotations

from pathlib import Path

import pytest

from toolyard.fs.roots import Root


@pytest.fixture
def root(tmp_path: Path):
    opened = Root(str(tmp_path))
    yield opened
    opened.close()

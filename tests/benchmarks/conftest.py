"""What the tests of all benchmarks share: a place of their own, and that nothing is left of a measurement."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.processes import descendants
from toolyard.config.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    temp = tmp_path / "temp"
    temp.mkdir()
    return Settings(str(tmp_path), str(tmp_path / "state"), str(temp), str(tmp_path / "Documents"))


@contextmanager
def nothing_left(settings: Settings) -> Generator[None]:
    """No file and no process of what is measured meanwhile."""
    before = descendants(os.getpid())
    yield
    assert os.listdir(settings.temp_dir) == []
    assert descendants(os.getpid()) <= before

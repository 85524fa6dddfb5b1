"""Server files of other programs, written where a test wants them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard.config.server_files import ServerFile, read_server_file

HOME = "/home/user"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ServerFile]:
    """Reads what a file of that name and content says."""

    def _read(name: str, content: object, **more: str) -> ServerFile:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_server_file(str(path), home=HOME, **more)

    return _read


def plain(file: ServerFile) -> dict[str, dict[str, object]]:
    """What the entries say beyond the defaults, without the place they come from."""
    dumped = {entry.name: entry.model_dump(exclude_defaults=True) for entry in file.entries}
    return {
        name: {key: value for key, value in entry.items() if key not in {"name", "base", "origin"}}
        for name, entry in dumped.items()
    }

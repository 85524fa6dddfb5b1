"""A workspace whose files are read and changed through the functions of `fs.files`, and no descriptor lost."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.descriptors import count_open
from toolyard.core.limits import Limits
from toolyard.files.file_io import move, read, rewrite
from toolyard.files.mounts import Mounts

LIMITS = Limits(file_bytes=1000, lock_seconds=0.05)


class Place:
    """A workspace in a temporary folder, and the functions under test bound to its paths."""

    def __init__(self, path, mounts):
        self.path = path
        self.mounts = mounts
        self.limits = LIMITS

    def find(self, name):
        return self.mounts.find(self.mounts.clean(name))

    def read(self, name, limits=LIMITS):
        with self.find(name) as target:
            return read(target, limits)

    def write(self, name, data=b"new", limits=LIMITS):
        with self.find(name) as target:
            return rewrite(target, data if callable(data) else lambda before: data, limits)

    def move(self, source, destination, limits=LIMITS):
        with self.find(source) as here, self.find(destination) as there:
            move(here, there, limits)

    def tree(self):
        found = {}
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.path)
                if os.path.islink(path):
                    found[relative] = os.readlink(path)
                else:
                    found[relative] = None if os.path.isdir(path) else Path(path).read_bytes()
        return found


@pytest.fixture
def no_descriptor_is_left_behind():
    before = count_open()
    yield
    assert count_open() == before


@pytest.fixture
def ws(tmp_path, no_descriptor_is_left_behind):
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    with closing(Mounts(str(folder))) as mounts:
        yield Place(folder, mounts)

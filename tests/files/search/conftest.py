import os
import threading
import time
from dataclasses import dataclass, field

import pytest

from toolyard.core.limits import Limits
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement
from toolyard.files.roots import Root
from toolyard.files.search import GrepQuery, glob, grep


@dataclass
class Yard:
    """A root in a temporary folder, with the search functions bound to it."""

    path: str
    root: Root
    confinement: Confinement
    limits: Limits = field(default_factory=Limits)

    def write(self, name, content="needle\n", *, mtime=None):
        path = os.path.join(os.fsencode(self.path), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mtime is not None:
            os.utime(path, (mtime, mtime))

    def grep(self, pattern="needle", start=".", *, visible=None, cancel=None, seconds=30, limits=None, **query):
        return grep(
            self.root,
            start,
            GrepQuery(pattern, **query),
            visible=visible or (lambda path: True),
            limits=limits or self.limits,
            cancel=cancel or threading.Event(),
            deadline=time.monotonic() + seconds,
            confinement=self.confinement,
        )

    def glob(self, pattern, start=".", *, visible=None, cancel=None, seconds=30, limits=None, **options):
        return glob(
            self.root,
            start,
            pattern,
            visible=visible or (lambda path: True),
            limits=limits or self.limits,
            cancel=cancel or threading.Event(),
            deadline=time.monotonic() + seconds,
            confinement=self.confinement,
            **options,
        )


@pytest.fixture(params=list(Confinement))
def yard(request, tmp_path):
    if request.param is Confinement.LANDLOCK and landlocked_process.best_confinement() is not Confinement.LANDLOCK:
        pytest.skip("this kernel has no Landlock")
    folder = tmp_path / "ws"
    folder.mkdir()
    root = Root(str(folder))
    yield Yard(str(folder), root, request.param)
    root.close()

from __future__ import annotations

import pytest

from toolyard.config.clients.clients import CLIENTS
from toolyard.config.clients.installer import InstallTarget
from toolyard.config.settings import Settings


class Machine:
    """A home of its own, and a project."""

    def __init__(self, base):
        self.base = base
        self.home = base / "home"
        self.project = base / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.variables = {"HOME": str(self.home)}

    def target(self, client, scope="user", name="toolyard"):
        settings = Settings.from_environment(self.variables)
        return InstallTarget(CLIENTS[client], scope, settings, str(self.project), name)

    def everything(self, *, but=".local"):
        """Every file and folder of the home and the project, with what they hold."""
        found = {}
        for root in (self.home, self.project):
            for path in sorted(root.rglob("*")):
                if but not in path.parts:
                    found[str(path.relative_to(self.base))] = path.read_bytes() if path.is_file() else None
        return found


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)

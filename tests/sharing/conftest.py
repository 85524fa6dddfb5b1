"""A layout with two agents, a store, and what is published of one of them."""

import os
import stat

import pytest

from toolyard.core.actions import Effect
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.rules import parse_rule
from toolyard.sharing.manifest import MANIFEST_FILE
from toolyard.sharing.publisher import Publisher
from toolyard.sharing.visibility import VisibilityFilter
from toolyard.snapshots import SnapshotStore


class Team:
    def __init__(self, path):
        self.root = path / "team"
        self.work = self.root / "agents" / "agent_b" / "workspace"
        self.work.mkdir(parents=True)
        self.shared = self.root / "shared"
        self.state = path / "state"
        self.store = SnapshotStore(str(self.state / "snapshots"))
        self.publisher = Publisher(str(self.shared), str(self.state), self.store)
        self.place = self.shared / "agent_b"

    def write(self, name, data="text\n", mode=None):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            path.chmod(mode)
        return path

    def filter(self, *denied):
        rules = tuple(parse_rule(text, Effect.DENY) for text in denied)
        policy = Policy(PermissionMode.STRICT, str(self.work), rules=rules)
        return VisibilityFilter(
            policy, workspace=str(self.work), root=str(self.root), published_folder=str(self.place)
        )

    def take(self):
        return self.store.create(str(self.work), agent="agent_b").snapshot

    def publish(self, *denied, snapshot=None):
        return self.publisher.publish("agent_b", snapshot or self.take(), self.filter(*denied))

    def shown(self):
        return picture(self.place)


def picture(folder):
    """Everything in a folder but our note, by path: the mode and content of files, where links lead."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(above, name)
            status = os.lstat(path)
            inside = os.path.relpath(path, folder)
            if stat.S_ISLNK(status.st_mode):
                found[inside] = os.readlink(path)
            elif stat.S_ISDIR(status.st_mode):
                found[inside] = "folder"
            elif inside != MANIFEST_FILE:
                with open(path, "rb") as file:
                    found[inside] = (stat.S_IMODE(status.st_mode), file.read())
    return found


@pytest.fixture
def team(tmp_path):
    made = Team(tmp_path)
    yield made
    made.store.close()

"""Real repositories in a workspace, made by the machine's git and by nobody's configuration."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolyard.assistant.precommit import Inspection, inspect_changes
from toolyard.dispatch.call_context import CallContext

_ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "ada",
    "GIT_AUTHOR_EMAIL": "ada@localhost",
    "GIT_COMMITTER_NAME": "ada",
    "GIT_COMMITTER_EMAIL": "ada@localhost",
    "GIT_ALLOW_PROTOCOL": "file",
    "LC_ALL": "C",
}


@dataclass
class Repo:
    path: Path

    def git(self, *words: str | bytes) -> str:
        ran = subprocess.run(
            ("git", "-C", self.path, *words), env=_ENVIRONMENT, capture_output=True, check=True, timeout=30
        )
        return ran.stdout.decode("utf-8", "replace")

    def write(self, name: str | bytes, content: str | bytes) -> Path:
        path = self.path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, **files: str) -> None:
        """Files by their names; what is staged already is committed too."""
        for name, content in files.items():
            self.write(name, content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")


@pytest.fixture
def make_repo():
    def make(path: Path) -> Repo:
        path.mkdir(parents=True, exist_ok=True)
        made = Repo(path)
        made.git("init", "-q", "-b", "main")
        return made

    return make


@pytest.fixture
def repo(make_repo, workspace):
    """The workspace is a repository with one commit."""
    made = make_repo(workspace)
    made.commit(**{"a.txt": "one\ntwo\nthree\n"})
    return made


@pytest.fixture
def look(open_gate):
    """Inspects a repository in the workspace, as often as it is called; `config` as it stands in the file."""
    gates: list[CallContext] = []

    def looker(path: Any = ".", *, staged: bool = True, unstaged: bool = True, **config: Any) -> Inspection:
        if not gates or config:
            gates.append(open_gate(**config))
        return inspect_changes(gates[-1], str(path), include_staged=staged, include_unstaged=unstaged)

    return looker


@pytest.fixture
def of():
    """The outcome of a check, and its details as (path, line, text)."""

    def told(found: Inspection, name: str) -> tuple[str, list[tuple[str, int, str]]]:
        each = next(check for check in found.checks if check.name == name)
        return each.outcome.value, [(detail.path, detail.line, detail.text) for detail in each.details]

    return told


@pytest.fixture
def listed():
    """The changes as (path, status, is_staged)."""

    def told(found: Inspection) -> list[tuple[str, str, bool]]:
        return [(change.path, change.status.value, change.is_staged) for change in found.changes]

    return told

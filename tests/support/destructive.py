"""Tests that could destroy something run in a private mount namespace, all of one file together.

A file or a test says so with `pytest.mark.destructive`. Outside such a namespace pytest never runs it: one item for
each file takes the place of its tests and starts pytest again for them, where everything but a tmpfs over /tmp is
read-only (`tests.support.private_mounts`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECONDS = 1_500
_SHOWN_CHARS = 20_000


class ContainedFile(pytest.Item):
    """The destructive tests of one file, run by another pytest in a private mount namespace."""

    def __init__(self, *, node_ids: list[str], **rest: Any) -> None:
        super().__init__(**rest)
        self.node_ids = node_ids
        self.add_marker(pytest.mark.timeout(_SECONDS + 60))

    def runtest(self) -> None:
        # In a file: hundreds of names would fill every list of processes that these tests look at.
        with os.fdopen(os.memfd_create("node-ids"), "w", encoding="utf-8") as names:
            names.write("\n".join(self.node_ids))
            names.flush()
            named = f"@/proc/self/fd/{names.fileno()}"
            pytest_again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", named]
            ran = subprocess.run(
                private_mounts.command(pytest_again),
                cwd=self.config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_SECONDS,
                check=False,
                pass_fds=(names.fileno(),),
                # Options meant for this run may name files to write, and nothing can be written there.
                env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            )
        if ran.returncode == private_mounts.UNAVAILABLE_EXIT:
            pytest.skip(ran.stdout.strip())
        if ran.returncode != 0:
            pytest.fail(f"{len(self.node_ids)} tests were run:\n{ran.stdout[-_SHOWN_CHARS:]}", pytrace=False)

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, 0, f"{self.path.name}: {self.name}"


def contained(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The items, with one for each file in place of its destructive tests, unless this process is contained."""
    if private_mounts.are_private():
        return list(items)
    kept: list[pytest.Item] = []
    by_file: dict[pytest.Collector, list[str]] = {}
    for item in items:
        file = item.getparent(pytest.Module)
        if item.get_closest_marker("destructive") is None or file is None:
            kept.append(item)
            continue
        if file not in by_file:
            by_file[file] = []
            name = "in a private mount namespace"
            kept.append(ContainedFile.from_parent(file, name=name, node_ids=by_file[file]))
        by_file[file].append(item.nodeid)
    return kept

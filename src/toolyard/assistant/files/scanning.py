"""The files of a folder, as ripgrep lists them: .gitignore is obeyed, links are not followed, `.git` is not entered.

Always in the same order, and no more than a few megabytes of names. What is opened is opened without following a
link, so it lies where its name says and is judged by that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.app.gate import Gate
from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB
from toolyard.fs import confine
from toolyard.fs.faults import shown
from toolyard.fs.mounts import Target
from toolyard.fs.roots import Root
from toolyard.fs.search.records import WALKED, names
from toolyard.fs.search.ripgrep import LAST_GLOBS, Bounds, Stop
from toolyard.fs.search.scope import Scope

_NAMES_BYTES = 4 * MIB
_GIT = ".git"


@dataclass(frozen=True, slots=True)
class Met:
    """A file that a scan has met, not opened yet."""

    root: Root
    relative: str
    path: str
    """Absolute."""
    shown: str

    def open(self) -> Target | None:
        """What is there now; None when it is gone, or is no longer a file of that folder."""
        try:
            handle = self.root.open(self.relative, links=False)
        except OSError:
            return None
        return Target(self.root, self.path, handle, ())


@dataclass(frozen=True, slots=True)
class Listing:
    files: tuple[Met, ...]
    is_whole: bool


def scan(gate: Gate, folder: Target) -> Listing:
    """What a folder holds that may be seen."""
    bounds = Bounds(gate.cancelled, gate.deadline)
    with Scope(folder.root, folder.relative, gate.visible, bounds, confine.available()) as scope:
        output = scope.run(("--files", "--sort=path", *LAST_GLOBS, "--", WALKED.decode()), most=_NAMES_BYTES)
        gate.check_time()
        if output.stop in {Stop.CANCELLED, Stop.DEADLINE}:
            raise ToolError("Looking through the folder took too long.", hint="Name a smaller folder.")
        return Listing(tuple(_met(gate, scope, names(output.data, WALKED))), output.stop is None)


def _met(gate: Gate, scope: Scope, found: list[str]) -> Iterator[Met]:
    root = scope.root
    for name in found:
        relative = scope.relative(name)
        if scope.allows(name) and _GIT not in relative.split("/"):
            path = f"{root.path.rstrip('/')}/{relative}"
            yield Met(root, relative, path, shown(gate.mounts.shown(path)))

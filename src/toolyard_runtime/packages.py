"""`servers`, `tools` and `skills` can be imported from wherever the code stands.

The finder comes after all others. So a package of the code's own that has one of these names is found first, as
anywhere in Python, and what it lacks is found here: with a `tools` of one's own, `tools.web` is still the custom
tools' (unless one's own is a single file, which can have nothing below it). `_massgen_runtime` is found here as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

VARIABLE = "TOOLYARD_PACKAGES"
_NAMES = frozenset({"servers", "tools", "skills"})
_ALIAS = "_massgen_runtime"


class Finder:
    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """As `sys.meta_path` wants it."""
        if name == _ALIAS:
            return _alias()
        first, *below = name.split(".")
        if first not in _NAMES:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [os.path.join(self._root, *([first, *below][:-1]))])


def install() -> None:
    """Once for each process, where there is a folder to import from."""
    root = os.environ.get(VARIABLE, "")
    if root and not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder(root))


def _alias() -> ModuleSpec | None:
    from importlib.util import spec_from_file_location

    return spec_from_file_location(_ALIAS, os.path.join(os.path.dirname(__file__), "massgen.py"))

"""`servers`, `tools` and `skills` can be imported from wherever the code stands.

The finder comes after all others. So a package of the code's own that has one of these names is found first, as
anywhere in Python, and what it lacks is found here: with a `tools` of one's own, `tools.web` is still the custom
tools' (unless one's own is a single file, which can have nothing below it). A skill is found by its bare name, too:
`skills.create_website` is one's own of that name, else the community's, else another agent's. `_massgen_runtime` is
found here too.
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
_AGENT = "TOOLYARD_AGENT"
_ASIDE = ".toolyard"  # where the host puts folders of ours when the workspace has one of the same name
_SKILLS, _COMMUNITY = "skills", "community"


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

        inner = [first, *below][:-1]
        folders = [os.path.join(self._root, *inner), os.path.join(self._root, _ASIDE, *inner)]
        if inner == [_SKILLS]:
            folders += self._skills()
        return PathFinder.find_spec(name, folders)

    def _skills(self) -> list[str]:
        """The folders of skills, one's own first."""
        skills = os.path.join(self._root, _SKILLS)
        try:
            agents = sorted(os.listdir(skills))
        except OSError:
            return []
        first = {os.environ.get(_AGENT, ""): 0, _COMMUNITY: 1}
        agents.sort(key=lambda agent: first.get(agent, 2))
        return [os.path.join(skills, agent) for agent in agents]


def install() -> None:
    """Once for each process, where there is a folder to import from."""
    root = os.environ.get(VARIABLE, "")
    if root and not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder(root))


def _alias() -> ModuleSpec | None:
    from importlib.util import spec_from_file_location

    return spec_from_file_location(_ALIAS, os.path.join(os.path.dirname(__file__), "massgen.py"))

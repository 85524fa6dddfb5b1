"""Makes `servers`, `tools` and `skills` importable from any folder.

The finder comes after all others. So a package of the code's own with one of these names is found first, as usual in
Python, and its missing modules are found here: beside the code's own `tools` package, `tools.web` is still the custom
tools' (unless the code's own is a single file, which has no submodules). A skill is also found by its bare name:
`skills.create_website` is the agent's own, else the community's, else another agent's, else one of an attached
folder, where it may be spelled `create-website`. `_massgen_runtime` is found here too.
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
SKILLS_VARIABLE = "TOOLYARD_SKILLS"
"""The name of the folder with the agent's own skills, then the attached folders, separated by colons."""
_FALLBACK_FOLDER = ".toolyard"  # where the host puts our folders if the workspace has one of the same name
_OWN_PACKAGES = os.path.join(os.path.dirname(__file__), "own_packages")
"""Tool files of Toolyard's own tools, for workspaces without synced tool files."""
_SKILLS, _COMMUNITY = "skills", "community"
_MODULE = "__init__.py"
_MAX_REPORTED = 64


class PackageFinder:
    """Finds the packages below one root."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Implements the finder protocol of `sys.meta_path`."""
        if name == _ALIAS:
            return _alias_spec()
        first, *below = name.split(".")
        if first not in _NAMES:
            return None
        from importlib.machinery import PathFinder

        inner = [first, *below][:-1]
        folders = [
            os.path.join(place, *inner)
            for place in (self._root, os.path.join(self._root, _FALLBACK_FOLDER), _OWN_PACKAGES)
        ]
        if inner != [_SKILLS]:
            return PathFinder.find_spec(name, folders)
        own, *more = os.environ.get(SKILLS_VARIABLE, "").split(os.pathsep)
        attached = [folder for folder in more if folder]  # an empty one would mean the current folder
        found = PathFinder.find_spec(name, [*folders, *self._skill_folders(own), *attached])
        return found or _find_dashed_skill(name, below[-1], attached)

    def _skill_folders(self, own: str) -> list[str]:
        """Returns the folders with skills, the agent's own first."""
        skills = os.path.join(self._root, _SKILLS)
        try:
            agents = sorted(os.listdir(skills))
        except OSError:
            return []
        first = {own: 0, _COMMUNITY: 1}
        agents.sort(key=lambda agent: first.get(agent, 2))
        return [os.path.join(skills, agent) for agent in agents]


class StagedSkillFinder:
    """Finds one skill in its staging folder before it is saved, in preference to a saved one of that name."""

    def __init__(self, owner: str, name: str, folder: str) -> None:
        self._names = (f"{_SKILLS}.{name}", f"{_SKILLS}.{owner}.{name}")
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return _package_spec(name, self._folder) if name in self._names else None


def try_out(owner: str, name: str, folder: str) -> None:
    """Imports the skill `name` from `folder` in this process."""
    sys.meta_path.insert(0, StagedSkillFinder(owner, name, folder))


def stand_aside() -> None:
    """Changes to an empty temporary folder until this process ends.

    Files that a skill's example writes must not appear in the workspace.
    """
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="toolyard-example-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chdir(folder)


_reported: set[str] = set()


def skills_used() -> list[str]:
    """Returns the folders that skill modules were imported from since the last call."""
    if _SKILLS not in sys.modules:
        return []
    files = [
        getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if _is_skill_module(name)
    ]
    # The real paths: the code may have imported them through a link.
    folders = {os.path.realpath(os.path.dirname(file)) for file in files if isinstance(file, str)} - _reported
    new = sorted(folders)[:_MAX_REPORTED]
    _reported.update(new)
    return new


def _is_skill_module(name: str) -> bool:
    return name.startswith(f"{_SKILLS}.")


def _find_dashed_skill(name: str, last: str, folders: list[str]) -> ModuleSpec | None:
    """Finds a skill of another program whose folder is spelled with dashes: `pdf-forms` is `pdf_forms`."""
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if "-" in entry and entry.replace("-", "_") == last:
                return _package_spec(name, os.path.join(folder, entry))
    return None


def _package_spec(name: str, folder: str) -> ModuleSpec | None:
    """Returns the spec of the package in a folder; a namespace package if it has no `__init__.py`."""
    from importlib.machinery import ModuleSpec
    from importlib.util import spec_from_file_location

    file = os.path.join(folder, _MODULE)
    if os.path.isfile(file):
        return spec_from_file_location(name, file, submodule_search_locations=[folder])
    if not os.path.isdir(folder):
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder]
    return spec


def install() -> None:
    """Installs the finder once per process, if there is a folder to import from."""
    root = os.environ.get(VARIABLE, "")
    if root and not any(isinstance(finder, PackageFinder) for finder in sys.meta_path):
        sys.meta_path.append(PackageFinder(root))


def _alias_spec() -> ModuleSpec | None:
    from importlib.util import spec_from_file_location

    return spec_from_file_location(_ALIAS, os.path.join(os.path.dirname(__file__), "massgen.py"))

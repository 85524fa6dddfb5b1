"""Checks whether the imports of a skill can be resolved, without importing anything.

Modules are looked up in the standard library, among installed packages, and in the workspace's `servers`, `tools` and
`skills`, where the imported names are checked too. Imports that the code expects to fail (in a `try`), or that are
for type checkers only, are ignored.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

from toolyard.core.agent_folder_names import COMMUNITY, folder_name
from toolyard.files.roots import Root
from toolyard.files.safe_paths import open_folder, read_file
from toolyard.skills.skill_md import module_name
from toolyard.workspace.layout import SERVERS, SKILLS, TOOLS

_WORKSPACE_PACKAGES = frozenset({SERVERS, TOOLS, SKILLS})
_FALLBACK_FOLDER = ".toolyard"  # holds generated folders if the workspace has its own folder of that name
_RUNTIME_PACKAGES = frozenset({"toolyard_runtime", "_massgen_runtime"})
_MAX_MODULE_BYTES = 1 << 20
_IMPORT_FAILURES = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement."""

    module: str
    names: tuple[str, ...]
    """The imported names; empty for `import module`."""
    level: int
    line: int

    @property
    def dotted_name(self) -> str:
        """The module as written, with leading dots."""
        return f"{'.' * self.level}{self.module}"


def required_imports(tree: ast.AST) -> Iterator[Import]:
    """Yields every import that has to succeed."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), 0, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            yield Import(node.module or "", names, node.level, node.lineno)
        elif isinstance(node, ast.Try) and _expects_failure(node):
            for part in (*node.orelse, *node.finalbody):
                yield from required_imports(ast.Module([part], []))
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from required_imports(ast.Module(node.orelse, []))
        else:
            yield from required_imports(node)


def _expects_failure(node: ast.Try) -> bool:
    caught = [handler.type for handler in node.handlers]
    names = {name.id for kind in caught if kind is not None for name in ast.walk(kind) if isinstance(name, ast.Name)}
    return None in caught or bool(names & _IMPORT_FAILURES)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def is_installed(module: str) -> bool:
    """Whether this Python has the module. Only the first part is resolved by import hooks, the rest by files.

    Modules in the current folder do not count: they are missing in any other folder.
    """
    first, *below = module.split(".")
    spec = _find_spec(first)
    if spec is not None and _is_in_current_folder(spec):
        here = os.path.realpath(os.curdir)
        spec = PathFinder.find_spec(first, [path for path in sys.path if os.path.realpath(path or os.curdir) != here])
    if spec is None:
        return False
    name, places = first, spec.submodule_search_locations
    for part in below:
        name = f"{name}.{part}"
        if places is not None and first not in sys.stdlib_module_names:
            return True  # third-party packages may create submodules when they are imported
        # `os` is not a package, yet `os.path` is a module: the interpreter registers it.
        inner = None if places is None else PathFinder.find_spec(name, list(places))
        if inner is None:
            return name in sys.modules
        places = inner.submodule_search_locations
    return True


def is_local_module(first: str) -> bool:
    """Whether the module lies in the current folder."""
    spec = _find_spec(first)
    return spec is not None and _is_in_current_folder(spec)


def _find_spec(first: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(first)
    except (ImportError, ValueError, AttributeError):
        return None


def _is_in_current_folder(spec: ModuleSpec) -> bool:
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    folders = {os.path.realpath(os.path.dirname(place)) for place in places if os.path.isabs(place)}
    return folders == {os.path.realpath(os.curdir)}


@dataclass(frozen=True, slots=True)
class ImportResolver:
    """Resolves the imports of one agent's skills. `installed` says what the sandbox's Python has."""

    root: Root
    agent: str
    installed: Callable[[str], bool] = is_installed
    local: Callable[[str], bool] = is_local_module
    """Whether a module, by its first name, can only be imported from the author's folder."""
    attached: tuple[str, ...] = ()
    """Attached skill folders. The names that their skills define are not checked."""

    def import_faults(self, name: str, files: Iterable[str], module: str, found: Iterable[Import]) -> list[str]:
        """Returns the unresolved imports of one module of the skill `name`; `files` are the skill's files."""
        own = frozenset(files)
        package = os.path.dirname(module)
        return [
            f"line {item.line}: {fault}"
            for item in found
            if (fault := self._import_fault(item, name, own, package)) is not None
        ]

    def _import_fault(self, item: Import, skill: str, own: frozenset[str], package: str) -> str | None:
        if item.level:
            return self._relative_import_fault(item, own, package)
        first, *below = item.module.split(".")
        if first in _WORKSPACE_PACKAGES:
            own_names = ([skill], [folder_name(self.agent), skill])
            is_itself = first == SKILLS and any(below[: len(names)] == names for names in own_names)
            return None if is_itself else self._workspace_import_fault(item, first, below)
        if first in _RUNTIME_PACKAGES or self.installed(item.module):
            return None
        if self.local(first):
            return f"{item.dotted_name} is in the author's folder, which others do not have: put it into the skill"
        return f"there is no module {item.dotted_name} here"

    def _relative_import_fault(self, item: Import, own: frozenset[str], package: str) -> str | None:
        parts = [part for part in package.split("/") if part]
        if item.level - 1 > len(parts):
            return f"{item.dotted_name} leads out of the skill"
        base = "/".join([*parts[: len(parts) - item.level + 1], *(item.module.split(".") if item.module else [])])
        if not item.module or _has_module(own, base):
            return None
        return f"there is no module {item.dotted_name} in the skill"

    def _workspace_import_fault(self, item: Import, first: str, below: list[str]) -> str | None:
        for folder in self._candidate_folders(first, below):
            at = "/".join([folder, *below]) if folder else ""
            if not self._module_exists(at):
                continue
            missing = [name for name in item.names if not self._defines_name(at, name)]
            return f"{item.dotted_name} has no {', '.join(missing)}" if missing else None
        if first == SKILLS and below and self._is_attached(below[0]):
            return None
        return f"there is no {item.dotted_name} in the workspace"

    def _is_attached(self, name: str) -> bool:
        for folder in self.attached:
            with contextlib.suppress(OSError):
                if any(module_name(entry) == name for entry in os.listdir(folder)):
                    return True
        return False

    def _candidate_folders(self, first: str, below: list[str]) -> list[str]:
        folders = [first, f"{_FALLBACK_FOLDER}/{first}"]
        if first == SKILLS and below:
            others = sorted(self._folder_names(SKILLS) - {COMMUNITY, folder_name(self.agent)})
            folders += [f"{SKILLS}/{owner}" for owner in (folder_name(self.agent), COMMUNITY, *others)]
        return folders

    def _folder_names(self, folder: str) -> set[str]:
        fd = open_folder(self.root, folder)
        if fd is None:
            return set()
        try:
            return set(os.listdir(fd))
        finally:
            os.close(fd)

    def _module_exists(self, path: str) -> bool:
        """Whether the path is a package or a module."""
        return any(
            self._file_type(candidate) == kind
            for candidate, kind in ((path, stat.S_IFDIR), (f"{path}.py", stat.S_IFREG))
        )

    def _file_type(self, path: str) -> int:
        try:
            with self.root.open(path, links=False) as handle:
                return stat.S_IFMT(handle.status.st_mode)
        except OSError:
            return 0

    def _defines_name(self, path: str, name: str) -> bool:
        """Whether a package has a submodule of that name, or its code mentions the name."""
        if self._module_exists(f"{path}/{name}"):
            return True
        is_bare_skills = path == SKILLS
        if is_bare_skills and any(
            self._module_exists(f"{folder}/{name}") for folder in self._candidate_folders(SKILLS, [name])
        ):
            return True
        if is_bare_skills and self._is_attached(name):
            return True
        for file in (f"{path}/__init__.py", f"{path}.py"):
            if self._file_type(file) == stat.S_IFREG:
                data = read_file(self.root, file, _MAX_MODULE_BYTES) or b""
                return re.search(rf"\b{re.escape(name)}\b", data.decode("utf-8", "replace")) is not None
        return False


def _has_module(files: frozenset[str], base: str) -> bool:
    return f"{base}.py" in files or any(path.startswith(f"{base}/") for path in files)

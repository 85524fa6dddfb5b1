"""The roots of a workspace: which one contains a path and what access it grants. Works on path text only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import ConfigError
from toolyard.core.paths import normalize_path, relative_to
from toolyard.core.permission_modes import Access
from toolyard.policy.modes import Zone
from toolyard.policy.patterns import PathPattern, PathView, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Git runs what these name (hooks, commands in a config, another repository's hooks through `commondir`, the `exec`
# lines of a rebase in progress), so an agent that could write them would run code as the user, outside the sandbox.
DEFAULT_PROTECTED = (
    "**/.git/hooks/**",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/commondir",
    "**/.git/modules/**",
    "**/.git/worktrees/**",
    "**/.git/rebase-merge/**",
    "/toolyard.yaml",
)


@dataclass(frozen=True, slots=True)
class ContextPath:
    """A path declared in the configuration, outside or inside the workspace, with its own access."""

    path: str
    access: Access = Access.READ
    protected_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with the access that it grants."""

    path: str
    zone: Zone


@dataclass(frozen=True, slots=True)
class ProtectedPattern:
    """A pattern whose matches may not be written, nor their literally named parent folders moved or replaced."""

    text: str
    matches: PathPattern
    folders: tuple[PathPattern, ...]

    @classmethod
    def parse(cls, text: str, *, home: str | None, root: str | None = None) -> ProtectedPattern:
        pattern = parse_pattern(text, home=home)
        if root is not None:
            pattern = pattern.anchored_at(root)
        return cls(text, pattern, pattern.parent_folder_patterns())

    def protects(self, view: PathView) -> bool:
        if self.matches.matches_in_any_root(view):
            return True
        return any(folder.matches_exactly(names) for folder in self.folders for names in folder.name_sequences(view))


class Roots:
    """All roots of a workspace, innermost first."""

    def __init__(self, workspace: str, context: Sequence[ContextPath], extra: Iterable[str]) -> None:
        for path in (workspace, *(entry.path for entry in context), *extra):
            if not path.startswith("/") or normalize_path(path, "/") != path:
                raise ConfigError(
                    f'the root "{path}" is not an absolute path.', hint="Resolve it before building a policy."
                )
        zones = {Access.READ: Zone.READ_ONLY, Access.WRITE: Zone.INSIDE}
        roots = [Root(entry.path, zones[entry.access]) for entry in context]
        # If one path is declared twice, the stricter access wins; a declaration also overrides the workspace itself.
        roots.sort(key=lambda root: root.zone is not Zone.READ_ONLY)
        roots.append(Root(workspace, Zone.INSIDE))
        roots.extend(Root(path, Zone.INSIDE) for path in extra)
        roots.sort(key=lambda root: -len(root.path))
        self.workspace = workspace
        self.all = tuple(roots)
        self.paths = frozenset(root.path for root in roots)

    def containing_root(self, path: str) -> Root | None:
        """Returns the innermost root that contains the path, or None."""
        for root in self.all:
            if relative_to(path, root.path) is not None:
                return root
        return None

    def path_view(self, path: str) -> PathView:
        held = [below for root in self.paths if (below := relative_to(path, root)) is not None]
        inside = relative_to(path, self.workspace)
        return PathView(
            path,
            _split_names(path.lstrip("/")),
            None if inside is None else _split_names(inside),
            tuple(_split_names(below) for below in held),
        )


def _split_names(relative: str) -> tuple[str, ...]:
    return () if relative in {"", "."} else tuple(relative.split("/"))

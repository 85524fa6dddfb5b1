"""Decides which paths of a client's project may be read: only the allowed paths.

It checks spelling only and accesses no disk, except that `from_file` reads the server's configuration file, and that
`from_config` may check folders on the server's disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from toolyard.bridge.errors import PathRefusedError, printable_text
from toolyard.bridge.path_syntax import EITHER, ParsedPath, PathSyntax, lies_in, resolve_parents, syntax_of
from toolyard.config.filesystem import DEFAULT_ALLOWED_PATHS
from toolyard.core.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from toolyard.config.models import Config

__all__ = ["DEFAULT_ALLOWED_PATHS", "SecurityPolicy"]

FoldersExist: TypeAlias = Callable[[str], bool]

_LOGGER: Final = logging.getLogger("toolyard.bridge")
_RELATIVE_ROOT: Final = ParsedPath("", ())
_set_frozen: Final = object.__setattr__
_ABSOLUTE_HINT: Final = "Write it as the client does: /home/me/project, or C:\\Users\\me\\project."


@dataclass(frozen=True, slots=True, init=False)
class SecurityPolicy:
    """The client's project and the allowed paths in it; everything else is denied. Immutable.

    Args:
        project_root: The client's project, as an absolute path in its spelling. None if it is not known yet.
        allowed_paths: Files and folders of the project that may be read.
        folders_exist: Returns whether the client has a folder, by its absolute path.

    Raises:
        ConfigError: The root is not absolute, or an allowed path is invalid.

    Example:
        ```python
        policy = SecurityPolicy("/home/me/project", ["src", "docs"])
        ```

    """

    project_root: str | None
    """In the client's spelling, absolute and normalised; None if not known (yet)."""
    allowed_paths: tuple[str, ...]
    """Normalised, none inside another. Absolute if the root is known, otherwise relative to the project."""
    missing: tuple[str, ...] = field(compare=False, repr=False)
    """The allowed paths that do not exist. Not checked before the root is known."""
    form: PathSyntax = field(compare=False, repr=False)
    """The client's path syntax."""
    root: ParsedPath = field(compare=False, repr=False)
    """The parsed project root; without an anchor if the root is not known."""
    _allowed: tuple[tuple[ParsedPath, ParsedPath], ...] = field(compare=False, repr=False)
    _waiting: tuple[str, ...] = field(repr=False)
    _given: tuple[str, ...] = field(compare=False, repr=False)
    _folders_exist: FoldersExist | None = field(compare=False, repr=False)

    def __init__(
        self,
        project_root: str | os.PathLike[str] | None = None,
        allowed_paths: Iterable[str] = DEFAULT_ALLOWED_PATHS,
        *,
        folders_exist: FoldersExist | None = None,
    ) -> None:
        """Parses the root and the allowed paths."""
        if isinstance(allowed_paths, str):
            raise ConfigError("allowed_paths is a single string", hint=f'Give a list: ["{allowed_paths}"].')
        given = tuple(allowed_paths)
        form, root = _parse_root(os.fspath(project_root) if isinstance(project_root, os.PathLike) else project_root)
        # Absolute ones wait for the root: until it is known, no absolute path of the client is accepted at all.
        waiting = tuple(path for path in given if not root.anchor and _absolute_syntax(path) is not None)
        places = [_resolve_place(path, form, root, "the allowed path") for path in given if path not in waiting]
        allowed = _outermost_places(form, places)
        texts = tuple(form.spell(place) for place, _ in allowed)
        exists = folders_exist if root.anchor else None
        missing = tuple(path for path in texts if exists is not None and not exists(path))
        _set_frozen(self, "project_root", form.spell(root) if root.anchor else None)
        _set_frozen(self, "allowed_paths", texts)
        _set_frozen(self, "missing", missing)
        _set_frozen(self, "form", form)
        _set_frozen(self, "root", root)
        _set_frozen(self, "_allowed", allowed)
        _set_frozen(self, "_waiting", waiting)
        _set_frozen(self, "_given", given)
        _set_frozen(self, "_folders_exist", folders_exist)
        for path in self.missing:
            _LOGGER.warning("%s is allowed, but does not exist at the client.", printable_text(path))

    @classmethod
    def from_config(
        cls, config: Config, project_root: str | None = None, *, folders_exist: FoldersExist | None = None
    ) -> SecurityPolicy:
        """Returns a policy with `filesystem.allowed_paths` of a configuration; errors name the file.

        Without `folders_exist`, this machine's disk is checked if the project's root is a folder on it.
        """
        _parse_root(project_root)  # checked first, so that an error in it is not blamed on the file
        if folders_exist is None and project_root is not None and os.path.isdir(project_root):
            folders_exist = os.path.isdir
        try:
            return cls(project_root, config.filesystem.allowed_paths, folders_exist=folders_exist)
        except ConfigError as error:
            if config.source is None:
                raise
            raise ConfigError(error.message, where=config.source, hint=error.hint) from None

    @classmethod
    def from_file(
        cls, path: str, project_root: str | None = None, *, folders_exist: FoldersExist | None = None
    ) -> SecurityPolicy:
        """Like `from_config`, for a configuration file such as toolyard.yaml."""
        from toolyard.config.loader import load_config  # servers without a file do not pay for it

        return cls.from_config(load_config(path), project_root, folders_exist=folders_exist)

    def rooted_at(self, root: str) -> SecurityPolicy:
        """Returns the policy with the same allowed paths for a project whose root has become known."""
        return SecurityPolicy(root, self._given, folders_exist=self._folders_exist)

    def relative(self, path: str) -> str:
        """Returns a validated path for display: relative to the project's root, with `/`; absolute if outside it."""
        place = self.form.parse(path)
        inside = self.names_inside_root(place)
        if inside is not None:
            return "/".join(inside) or "."
        return self.form.spell(place).replace("\\", "/")

    def names_inside_root(self, place: ParsedPath) -> tuple[str, ...] | None:
        """Returns the path's names below the project's root; None if it is outside."""
        is_inside = lies_in(self.form.fold_case(place), self.form.fold_case(self.root))
        return place.names[len(self.root.names) :] if is_inside else None

    def allowed_place(self, place: ParsedPath) -> ParsedPath | None:
        """Returns the path in the policy's spelling if it is allowed; None if it is denied."""
        folded = self.form.fold_case(place)
        for outer, outer_folded in self._allowed:
            if lies_in(folded, outer_folded):
                # On a case-sensitive file system, another spelling would be another folder.
                return ParsedPath(outer.anchor, outer.names + place.names[len(outer.names) :])
        return None


def _parse_root(path: object) -> tuple[PathSyntax, ParsedPath]:
    if path is None:
        return EITHER, _RELATIVE_ROOT
    form = _absolute_syntax(path)
    if form is None:
        raise ConfigError(f"the project root {printable_text(str(path))} is not absolute", hint=_ABSOLUTE_HINT)
    return form, _resolve_place(path, form, _RELATIVE_ROOT, "the project root")


def _absolute_syntax(path: object) -> PathSyntax | None:
    return syntax_of(path) if isinstance(path, str) else None


def _resolve_place(path: object, form: PathSyntax, root: ParsedPath, what: str) -> ParsedPath:
    """Resolves a path of the server's operator. A relative path must stay inside the project."""
    try:
        place = form.parse(path)
    except (PathRefusedError, ValidationError) as error:
        raise ConfigError(f"{what} cannot be used: {error.message}", hint=error.hint) from None
    names = resolve_parents(() if place.anchor else root.names, place.names)
    if names is not None:
        found = ParsedPath(place.anchor or root.anchor, names)
        if place.anchor or lies_in(form.fold_case(found), form.fold_case(root)):
            return found
    raise ConfigError(
        f"{what} {printable_text(str(path))} climbs out of {'its disk' if place.anchor else 'the project'}",
        hint="Write it as an absolute path, without `..`, if it is meant to be allowed.",
    )


def _outermost_places(form: PathSyntax, places: list[ParsedPath]) -> tuple[tuple[ParsedPath, ParsedPath], ...]:
    """Returns the paths with their case-folded forms, without duplicates and those inside another."""
    kept: list[tuple[ParsedPath, ParsedPath]] = []
    for place in places:
        folded = form.fold_case(place)
        if not any(lies_in(folded, outer) for _, outer in kept):
            kept = [*((other, inner) for other, inner in kept if not lies_in(inner, folded)), (place, folded)]
    return tuple(kept)

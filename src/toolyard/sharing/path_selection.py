"""Selects files of a peer by paths and globs, relative to the peer's workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolyard.core.errors import ValidationError
from toolyard.core.limits import Limits
from toolyard.core.paths import relative_to
from toolyard.files.search.glob_patterns import Glob, compile_glob

_GLOB_CHARACTERS = re.compile(r"[*?\[{]")
_GIT = ".git"


def is_git_name(name: str) -> bool:
    """Whether a name is a repository's `.git` folder or file."""
    return name.lower() == _GIT  # on case-insensitive file systems, git accepts any spelling


class PathSelection:
    """The files that a merge request selects."""

    def __init__(self, patterns: Iterable[str], folder_spellings: Sequence[str], limits: Limits) -> None:
        """`folder_spellings` are paths of the folder with the peer's files; a pattern may start with one of them."""
        self._exact: list[tuple[str, ...]] = []
        self._globs: list[Glob] = []
        for pattern in patterns:
            path = _relative_pattern(pattern, folder_spellings)
            names = tuple(name for name in path.split("/") if name not in {"", "."})
            if ".." in names:
                raise ValidationError.of("paths", "must not contain ..", hint="Name files of the peer's workspace.")
            if any(is_git_name(name) for name in names):
                raise ValidationError.of(
                    "paths",
                    f"{pattern} is inside a repository's .git, which is never merged file by file",
                    hint=f"Take its commits with git: {git_pull_command(folder_spellings[0])}.",
                )
            if not _GLOB_CHARACTERS.search(path):
                self._exact.append(names)
            else:
                self._globs.append(compile_glob(path, "paths", limits, any_depth=True))
        if not self._exact and not self._globs:
            raise ValidationError.of("paths", "is empty", hint='Name files or folders, or "**" for all of them.')

    def includes(self, path: str) -> bool:
        """Whether the selection contains a path."""
        parts = tuple(path.split("/"))
        if any(parts[: len(names)] == names for names in self._exact):
            return True
        return any(glob.matches(parts) for glob in self._globs)


def git_pull_command(place: str) -> str:
    """Returns the command that pulls commits from a repository at `place`."""
    return f"git pull {place} BRANCH"


def _relative_pattern(pattern: str, folder_spellings: Sequence[str]) -> str:
    pattern = pattern.removeprefix("./")
    for place in folder_spellings:
        inside = relative_to(pattern.rstrip("/"), place)
        if inside is not None:
            return inside
    if pattern.startswith("/"):
        raise ValidationError.of(
            "paths", f"{pattern} is not a file of the peer", hint=f"Use paths relative to {folder_spellings[0]}."
        )
    return pattern

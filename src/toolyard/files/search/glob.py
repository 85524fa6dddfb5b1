"""Finding files by the pattern of their names, the newest first. ripgrep's own globs: `*.py` at any depth,
`src/**/*.ts`, braces; .gitignore is obeyed, `.git` and our temporary files never appear.

A pattern given to ripgrep overrides .gitignore for the files it names. What is ignored is therefore taken out by a
second listing without the pattern.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.limits import Limits
from toolyard.core.paths import beneath
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement
from toolyard.files.roots import Root
from toolyard.files.search.ripgrep import LAST_GLOBS, Bounds, Stop, as_data, glob_option
from toolyard.files.search.ripgrep_output import WALKED, names
from toolyard.files.search.scope import Scope
from toolyard.files.search.sources import listed

_SPECIAL = frozenset("*?[{\\")


@dataclass(frozen=True, slots=True)
class GlobResult:
    """Paths relative to the root, the newest first; `total` counts those that were left out too."""

    files: tuple[str, ...]
    total: int
    truncated: bool
    note: str

    @property
    def text(self) -> str:
        return "\n".join(self.files)


def glob(
    root: Root,
    start: str,
    pattern: str,
    *,
    visible: Callable[[str], bool],
    limits: Limits,
    cancel: threading.Event,
    deadline: float,
    include_ignored: bool = False,
    confinement: Confinement | None = None,
) -> GlobResult:
    """The files beneath the folder `start` whose path from there matches `pattern`."""
    as_data(pattern, "pattern", most=limits.pattern_chars)
    start, pattern = rebased(root, start, pattern)
    with Scope(
        root, start, visible, Bounds(cancel, deadline), confinement or landlocked_process.available()
    ) as scope:
        if scope.is_file:
            raise ToolError(f"{start} is a file, not a folder.", hint="Give the folder to search in as path.")
        matching, stop = _matching(scope, pattern, include_ignored)
        if stop is Stop.DEADLINE and not matching:
            raise ToolError(
                "The search ran into its deadline before it found anything.",
                hint="Search a smaller folder.",
                retryable=True,
            )
        ordered = scope.newest_first(name for name in matching if scope.allows(name))
        return _result(scope, ordered, stop, limits)


def rebased(root: Root, start: str, pattern: str) -> tuple[str, str]:
    """Where to start and what to match there: an absolute pattern is taken from the root it lies beneath."""
    if ".." in pattern.split("/"):
        raise SecurityError(
            "The pattern goes up with `..`.", hint="Start from a folder inside the workspace instead."
        )
    if not pattern.startswith("/"):
        while pattern.startswith("./"):
            pattern = pattern[2:].lstrip("/")
        return start, pattern or "*"
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    inside = beneath("/" + "/".join(parts), root.path)
    if inside is None:
        raise SecurityError(
            f"The pattern {pattern} lies outside {root.path}.", hint="Use a pattern relative to the workspace."
        )
    # The folders that are named outright need no walk through their neighbours.
    *folders, last = [part for part in inside.split("/") if part != "."] or ["*"]
    plain = next((at for at, part in enumerate(folders) if _SPECIAL & set(part)), len(folders))
    return "/".join(folders[:plain]) or ".", "/" + "/".join((*folders[plain:], last))


def _matching(scope: Scope, pattern: str, include_ignored: bool) -> tuple[list[str], Stop | None]:
    if include_ignored:
        output = listed(scope, ("--no-ignore", glob_option(pattern), *LAST_GLOBS), glob_field="pattern")
        return names(output.data, WALKED), output.stop
    chosen = listed(scope, (glob_option(pattern), *LAST_GLOBS), glob_field="pattern")
    candidates = names(chosen.data, WALKED)
    if not candidates or chosen.stop is not None:
        # Stopped early, nothing is known of the ignored ones: show none rather than some that should be hidden.
        return [], chosen.stop
    tracked = listed(scope, LAST_GLOBS)
    kept = set(names(tracked.data, WALKED))
    return [name for name in candidates if name in kept], tracked.stop


def _result(scope: Scope, ordered: list[str], stop: Stop | None, limits: Limits) -> GlobResult:
    files: list[str] = []
    left = limits.output_chars
    for name in ordered[: limits.list_entries]:
        path = scope.shown(name)
        left -= len(path) + 1
        if left < 0:
            break
        files.append(path)
    notes: list[str] = []
    if len(files) < len(ordered):
        notes.append(f"Showing the newest {len(files):,} of {len(ordered):,} files; narrow the pattern or the path.")
    if stop is not None:
        notes.append(f"The search was stopped early ({stop}); there may be more files.")
    return GlobResult(tuple(files), len(ordered), bool(notes), " ".join(notes))

"""Finds files by a name pattern, newest first, with ripgrep's globs.

`*.py` matches at any depth; `src/**/*.ts` and braces work too; .gitignore is obeyed, `.git` and temporary files never
appear. A pattern given to ripgrep overrides .gitignore for the files that it matches. Ignored files are therefore
removed by a second listing without the pattern.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.limits import Limits
from toolyard.core.paths import relative_to
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement
from toolyard.files.roots import Root
from toolyard.files.search.ripgrep import LAST_GLOBS, SearchBounds, StopReason, check_argument, glob_option
from toolyard.files.search.ripgrep_output import WALKED, parse_names
from toolyard.files.search.scope import SearchScope
from toolyard.files.search.sources import list_names

_SPECIAL = frozenset("*?[{\\")


@dataclass(frozen=True, slots=True)
class GlobResult:
    """Paths relative to the root, newest first; `total` also counts those that were left out."""

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
    """Returns the files beneath the folder `start` whose path from there matches `pattern`."""
    check_argument(pattern, "pattern", max_chars=limits.pattern_chars)
    start, pattern = resolve_start(root, start, pattern)
    with SearchScope(
        root, start, visible, SearchBounds(cancel, deadline), confinement or landlocked_process.best_confinement()
    ) as scope:
        if scope.is_file:
            raise ToolError(f"{start} is a file, not a folder.", hint="Give the folder to search in as path.")
        matching, stop = _find_names(scope, pattern, include_ignored)
        if stop is StopReason.DEADLINE and not matching:
            raise ToolError(
                "The search ran into its deadline before it found anything.",
                hint="Search a smaller folder.",
                retryable=True,
            )
        ordered = scope.newest_first(name for name in matching if scope.allows(name))
        return _build_result(scope, ordered, stop, limits)


def resolve_start(root: Root, start: str, pattern: str) -> tuple[str, str]:
    """Returns where to start and what to match there: an absolute pattern is resolved against the root."""
    if ".." in pattern.split("/"):
        raise SecurityError(
            "The pattern goes up with `..`.", hint="Start from a folder inside the workspace instead."
        )
    if not pattern.startswith("/"):
        while pattern.startswith("./"):
            pattern = pattern[2:].lstrip("/")
        return start, pattern or "*"
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    inside = relative_to("/" + "/".join(parts), root.path)
    if inside is None:
        raise SecurityError(
            f"The pattern {pattern} lies outside {root.path}.", hint="Use a pattern relative to the workspace."
        )
    # Start in the deepest folder without a wildcard: its siblings need no walk.
    *folders, last = [part for part in inside.split("/") if part != "."] or ["*"]
    plain = next((at for at, part in enumerate(folders) if _SPECIAL & set(part)), len(folders))
    return "/".join(folders[:plain]) or ".", "/" + "/".join((*folders[plain:], last))


def _find_names(scope: SearchScope, pattern: str, include_ignored: bool) -> tuple[list[str], StopReason | None]:
    if include_ignored:
        output = list_names(scope, ("--no-ignore", glob_option(pattern), *LAST_GLOBS), glob_field="pattern")
        return parse_names(output.data, WALKED), output.stop
    chosen = list_names(scope, (glob_option(pattern), *LAST_GLOBS), glob_field="pattern")
    candidates = parse_names(chosen.data, WALKED)
    if not candidates or chosen.stop is not None:
        # If stopped early, the ignored files are unknown: return none rather than some that should be hidden.
        return [], chosen.stop
    tracked = list_names(scope, LAST_GLOBS)
    not_ignored = set(parse_names(tracked.data, WALKED))
    return [name for name in candidates if name in not_ignored], tracked.stop


def _build_result(scope: SearchScope, ordered: list[str], stop: StopReason | None, limits: Limits) -> GlobResult:
    files: list[str] = []
    left = limits.output_chars
    for name in ordered[: limits.list_entries]:
        path = scope.display_path(name)
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

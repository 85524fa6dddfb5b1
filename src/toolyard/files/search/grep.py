"""Searches text with ripgrep and formats results as Claude Code's Grep does. Paths are relative to the root.

The order of results does not depend on timing (files by name; newest first for a list of files), so that `offset`
continues where an earlier call ended. Only a search that was stopped early, and says so, may list other files the
next time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.errors import ToolError
from toolyard.core.limits import Limits
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement
from toolyard.files.roots import Root
from toolyard.files.search.grep_query import GrepQuery, OutputMode, ripgrep_options
from toolyard.files.search.render import count_matches, page_of_lines, render_lines
from toolyard.files.search.ripgrep import SearchBounds, StopReason
from toolyard.files.search.ripgrep_output import FileMatches
from toolyard.files.search.scope import SearchScope
from toolyard.files.search.sources import Hits, search

__all__ = ["GrepQuery", "GrepResult", "OutputMode", "grep"]


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The result of a search. `lines` are the requested page; `files` are the files on it.

    `matches` counts all matches: matching lines, or files if only files were requested. `truncated` says that there
    is more than `lines`, and `note` what to do about it.
    """

    lines: tuple[str, ...]
    files: tuple[str, ...]
    matches: int
    truncated: bool
    note: str

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def grep(
    root: Root,
    start: str,
    query: GrepQuery,
    *,
    visible: Callable[[str], bool],
    limits: Limits,
    cancel: threading.Event,
    deadline: float,
    confinement: Confinement | None = None,
) -> GrepResult:
    """Searches beneath `start`, which is relative to the root: "." for all of it, or a folder, or a file.

    `visible` is asked once per file, with its absolute path; hidden files do not appear in any way. `deadline` is a
    time of the monotonic clock.
    """
    arguments = ripgrep_options(query, limits)
    chosen = confinement or landlocked_process.best_confinement()
    with SearchScope(root, start, visible, SearchBounds(cancel, deadline), chosen) as scope:
        hits = search(scope, query, arguments)
        if hits.stop is StopReason.DEADLINE and not hits.found:
            raise ToolError(
                "The search ran into its deadline before it found anything.",
                hint="Search a smaller folder, or narrow it with glob or type.",
                retryable=True,
            )
        return _build_result(scope, query, hits, limits)


def _build_result(scope: SearchScope, query: GrepQuery, hits: Hits, limits: Limits) -> GrepResult:
    found = _sort_matches(scope, query, hits)
    cut = page_of_lines(render_lines(scope, query, found), query, limits)
    matches = count_matches(query, found)
    notes = [cut.note(stopped=hits.stop is not None), _stop_note(hits.stop), _unreadable_note(hits.unreadable)]
    return GrepResult(
        lines=cut.lines,
        files=cut.files,
        matches=matches,
        truncated=cut.more or hits.stop is not None,
        note=" ".join(note for note in notes if note),
    )


def _sort_matches(scope: SearchScope, query: GrepQuery, hits: Hits) -> list[FileMatches]:
    if query.output_mode == "files_with_matches":
        if scope.is_file:
            return list(hits.found)
        return [FileMatches(name, b"") for name in scope.newest_first(found.name for found in hits.found)]
    return sorted(hits.found, key=lambda found: found.name)


def _stop_note(stop: StopReason | None) -> str:
    match stop:
        case StopReason.FULL:
            return "There was too much to collect and the search was stopped; narrow it with path, glob or type."
        case StopReason.CANCELLED:
            return "The search was cancelled; this is what it had found."
        case StopReason.DEADLINE:
            return "The search ran into its deadline; this is what it had found. Search a smaller folder."
        case None:
            return ""


def _unreadable_note(count: int) -> str:
    if not count:
        return ""
    return "1 file or folder could not be read." if count == 1 else f"{count} files or folders could not be read."

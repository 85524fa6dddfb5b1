"""Maps paths in a trace from another machine or a container to files of the workspace. Pure functions.

The longest common suffix of both paths decides, if only one file has it. A file name alone is weak evidence: it
counts if the trace has nothing but the name, or if the file lies at the root of the workspace and the trace's other
files share the folder above it. Files of libraries are never mapped to the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from toolyard.assistant.traces.locations import language_of
from toolyard.core.paths import relative_to

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,40}):///?")
_WITH_HOST = frozenset({"http", "https"})
_DRIVE = re.compile(r"/?[A-Za-z]:[\\/]")
_LIBRARIES = (
    "/site-packages/",
    "/dist-packages/",
    "/node_modules/",
    "/.cargo/registry/",
    "/rustc/",
    "/go/pkg/mod/",
    "/go/src/",
    "/usr/lib/",
    "/usr/local/lib/",
    "/usr/include/",
    "/lib/python3",
    "/sysdeps/",
    "/libsanitizer/",
)
_WINDOWS_PYTHON = re.compile(r"/python3\d{0,3}/lib/")
_PACKAGES = ("java/", "javax/", "jdk/", "sun/", "com/sun/", "kotlin/", "kotlinx/", "scala/")
_MIN_SHARED = 2
"""Trailing path components that two paths must share."""


@dataclass(frozen=True, slots=True)
class TracePath:
    """A path of a trace, in components; `is_whole` is False if it starts at a root of another machine."""

    file: str
    parts: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _PathMatch:
    path: str
    shared: int


def file_name_of(file: str) -> str:
    """Returns the file name of the path; empty if it cannot be one of the user's files."""
    named = _parse_trace_path(file)
    return named.parts[-1] if named is not None else ""


def map_to_workspace(
    files: Iterable[str], paths: Sequence[str], workspace: str, check_time: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Maps `files`, as traces spell them, to those of `paths` that they mean; `paths` are relative to `workspace`.

    `check_time` is called before each file and may raise.
    """
    existing, ends = frozenset(paths), _SuffixIndex([tuple(path.split("/")) for path in paths])
    found: dict[str, str] = {}
    weak: dict[str, tuple[TracePath, _PathMatch]] = {}
    roots: set[str] = set()
    for file in files:
        check_time()
        inside = relative_to(file, workspace) if file.startswith("/") else None
        if inside is not None:
            if inside in existing:
                found[file] = inside
            continue
        named = _parse_trace_path(file)
        match = _best_match(named, ends, existing) if named is not None else None
        if named is None or match is None:
            continue
        if match.shared >= _MIN_SHARED or named.is_whole:
            found[file] = match.path
            roots.add(_unshared_prefix(named, match))
        elif "/" not in match.path:
            weak[file] = named, match
    for file, (named, match) in weak.items():
        if not roots or _unshared_prefix(named, match) in roots:
            found[file] = match.path
    return found


class _SuffixIndex:
    """Paths that share their last `shared` components, indexed lazily by the component before."""

    def __init__(self, paths: Sequence[tuple[str, ...]], shared: int = 0) -> None:
        self.paths = paths
        self.shared = shared
        self._by_part: dict[str, _SuffixIndex] | None = None

    def with_part(self, part: str) -> _SuffixIndex | None:
        """Returns the paths that also share this component."""
        if self._by_part is None:
            grouped: dict[str, list[tuple[str, ...]]] = {}
            for path in self.paths:
                if len(path) > self.shared:
                    grouped.setdefault(path[-self.shared - 1], []).append(path)
            self._by_part = {each: _SuffixIndex(group, self.shared + 1) for each, group in grouped.items()}
        return self._by_part.get(part)


def _best_match(named: TracePath, ends: _SuffixIndex, there: Collection[str]) -> _PathMatch | None:
    """Returns the only path with the longest common suffix; the identical path has precedence."""
    most = ends
    for part in reversed(named.parts):
        more = most.with_part(part)
        if more is None:
            break
        most = more
    if not most.shared or (named.is_whole and most.shared < min(len(named.parts), _MIN_SHARED)):
        return None
    itself = "/".join(named.parts)
    if itself in there:
        return _PathMatch(itself, most.shared)
    return _PathMatch("/".join(most.paths[0]), most.shared) if len(most.paths) == 1 else None


def _unshared_prefix(named: TracePath, match: _PathMatch) -> str:
    return "/".join(named.parts[: len(named.parts) - match.shared])


def _parse_trace_path(file: str) -> TracePath | None:
    """Splits a path into components; returns None for what is not a file, or belongs to a library."""
    address = _ADDRESS.match(file)
    text, is_whole = file, not file.startswith("/")
    if address is not None:
        text = unquote(file[address.end() :].partition("?")[0])
        is_whole = False
        if address["scheme"].lower() in _WITH_HOST:
            text = text.partition("/")[2]
    if _DRIVE.match(text):
        text, is_whole = text.lstrip("/")[2:], False
    text = text.replace("\\", "/")
    if text.startswith("<") or file.startswith(("node:", "internal/")) or _is_library(text):
        return None
    parts: list[str] = []
    for part in text.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in {"", ".", ".."}:
            parts.append(part)
    return TracePath(file, tuple(parts), is_whole) if parts else None


def _is_library(text: str) -> bool:
    if language_of(text) == "java" and text.startswith(_PACKAGES):
        return True
    folded = f"/{text.lower()}"
    return any(mark in folded for mark in _LIBRARIES) or _WINDOWS_PYTHON.search(folded) is not None

"""Which file of the workspace a path of a trace means, when the trace comes from another machine or a container.

The longest common end of both paths decides, where only one file has it. A name alone is weak: it counts where the
trace tells nothing but the name, or where the file lies at the root of the workspace and the trace's other files
have the same folder above them. Files of libraries are never taken for the user's own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from toolyard.assistant.traces.places import language_of
from toolyard.core.paths import beneath

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
_ENOUGH = 2
"""Names that two paths must share at their ends."""


@dataclass(frozen=True, slots=True)
class Named:
    """A path of a trace, in parts; `is_whole` unless it begins at some root of its own."""

    file: str
    parts: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Match:
    path: str
    shared: int


def name_of(file: str) -> str:
    """The last name of the path, "" when it can be no file of anybody's own."""
    named = _named(file)
    return named.parts[-1] if named is not None else ""


def mapped(files: Iterable[str], paths: Sequence[str], workspace: str) -> dict[str, str]:
    """Those of `files`, as traces name them, that are among `paths`, which are relative to the `workspace`."""
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        parts = tuple(path.split("/"))
        by_name.setdefault(parts[-1], []).append(parts)
    there = set(paths)
    found: dict[str, str] = {}
    weak: dict[str, _Match] = {}
    roots: set[str] = set()
    for file in files:
        inside = beneath(file, workspace) if file.startswith("/") else None
        if inside is not None:
            if inside in there:
                found[file] = inside
            continue
        named = _named(file)
        match = _best(named, by_name.get(named.parts[-1], ())) if named is not None else None
        if named is None or match is None:
            continue
        if match.shared >= _ENOUGH or named.is_whole:
            found[file] = match.path
            roots.add(_root(named, match))
        elif "/" not in match.path:
            weak[file] = match
    for file, match in weak.items():
        named = _named(file)
        if named is not None and (not roots or _root(named, match) in roots):
            found[file] = match.path
    return found


def _best(named: Named, candidates: Iterable[tuple[str, ...]]) -> _Match | None:
    """The only one that shares most; the very path itself goes before others that end in it."""
    best: list[tuple[str, ...]] = []
    most = 0
    for candidate in candidates:
        shared = _shared(named.parts, candidate)
        if shared > most:
            best, most = [candidate], shared
        elif shared == most:
            best.append(candidate)
    if named.parts in best:
        best = [named.parts]
    if len(best) != 1 or (named.is_whole and most < min(len(named.parts), _ENOUGH)):
        return None
    return _Match("/".join(best[0]), most)


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _root(named: Named, match: _Match) -> str:
    return "/".join(named.parts[: len(named.parts) - match.shared])


def _named(file: str) -> Named | None:
    """The path in parts, or None for what is no file or a library's."""
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
    return Named(file, tuple(parts), is_whole) if parts else None


def _is_library(text: str) -> bool:
    if language_of(text) == "java" and text.startswith(_PACKAGES):
        return True
    folded = f"/{text.lower()}"
    return any(mark in folded for mark in _LIBRARIES) or _WINDOWS_PYTHON.search(folded) is not None

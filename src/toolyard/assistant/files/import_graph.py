"""The import graph of a set of files, and the packages that they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from toolyard.assistant.files.import_resolver import ProjectImportResolver
from toolyard.assistant.files.import_statements import find_references
from toolyard.assistant.files.sources import SourceFile

_RENDERED_CHARS: Final = 16_000
_SHOWN_IMPORTS: Final = 30
_MOST_USED: Final = 10
_PACKAGES: Final = 60


@dataclass(frozen=True, slots=True)
class FileImports:
    """What one file imports."""

    path: str
    files: tuple[str, ...]
    """Other files among the sources."""
    packages: tuple[str, ...]
    """Third-party packages."""


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """The imports of a set of files."""

    imports: tuple[FileImports, ...]
    """Of every file that imports something, in the order of the sources."""

    def render(self, most_chars: int = _RENDERED_CHARS) -> str:
        """Renders most-used files, packages and imports for a model, in about `most_chars` characters."""
        used = Counter(path for each in self.imports for path in each.files)
        packages = Counter(name for each in self.imports for name in each.packages)
        lines: list[str] = []
        if used:
            lines.append(f"Used by most others: {_format_counts(used, _MOST_USED)}")
        if packages:
            lines.append(f"Packages: {_format_counts(packages, _PACKAGES)}")
        room = most_chars - sum(len(line) + 1 for line in lines)
        users = [each for each in self.imports if each.files]
        for at, each in enumerate(users):
            line = f"{each.path} -> {_format_paths(each.files)}"
            room -= len(line) + 1
            if room < 0:
                lines.append(f"... {len(users) - at} more files use others")
                break
            lines.append(line)
        return "\n".join(lines) or "None of these files uses another."


def import_graph(sources: Sequence[SourceFile], check_time: Callable[[], None] = lambda: None) -> ImportGraph:
    """Builds the graph. `check_time` is called before each file and may raise."""
    resolver = ProjectImportResolver(sources, check_time)
    found: list[FileImports] = []
    for source in sources:
        check_time()
        resolved = [resolver.resolve(source, reference) for reference in find_references(source)]
        files = tuple(dict.fromkeys(path for each in resolved for path in each.files))
        packages = tuple(dict.fromkeys(each.package for each in resolved if each.package))
        if files or packages:
            found.append(FileImports(source.path, files, packages))
    return ImportGraph(tuple(found))


def _format_counts(counts: Counter[str], most: int) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{name} ({count})" for name, count in ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"


def _format_paths(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN_IMPORTS])
    return shown if len(paths) <= _SHOWN_IMPORTS else f"{shown} and {len(paths) - _SHOWN_IMPORTS} more"

"""Suggestions for keys that exist but belong elsewhere in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from toolyard.config.section import Section

_MAX_NAMED_PATHS = 3


def suggest_key_path(key: str, found_in: str, top: type[Section]) -> str:
    """Returns `Did you mean X?` with the full path of a key of that name, or nothing if no section has it.

    A key in a section with the same name as `found_in` is preferred.
    """
    paths = [path for path in _key_paths(top) if path.rpartition(".")[2] == key]
    likely = f".{found_in.rpartition('.')[2]}.{key}"
    paths = [path for path in paths if path.endswith(likely)] or paths
    named = " or ".join(f'"{path}"' for path in paths)
    return f"Did you mean {named}?" if 0 < len(paths) <= _MAX_NAMED_PATHS else ""


@dataclass(frozen=True, slots=True)
class MisplacedKeys:
    """Keys that belong one level deeper, in a section that was left out."""

    keys: tuple[str, ...]
    hint: str


def find_misplaced_keys(section: type[Section], unknown: Iterable[str]) -> MisplacedKeys | None:
    """Returns the unknown keys that belong to a subsection, for the subsection that knows most of them."""
    unknown = tuple(unknown)
    best: tuple[str, tuple[str, ...]] = "", ()
    for name, inner in _subsections(section):
        keys = tuple(key for key in unknown if key in inner.keys_of_file())
        if len(keys) > len(best[1]):
            best = name, keys
    name, keys = best
    if not keys:
        return None
    return MisplacedKeys(
        keys, f"{'It belongs' if len(keys) == 1 else 'They belong'} under `{name}:`, indented one step more."
    )


def _subsections(section: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield name, field.annotation


@cache
def _key_paths(top: type[Section]) -> tuple[str, ...]:
    return tuple(_iter_key_paths(top, ""))


def _iter_key_paths(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        if name in section.internal:
            continue
        yield f"{prefix}{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _iter_key_paths(inner, f"{prefix}{name}.")

"""Keys that exist, but belong elsewhere in the file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from toolyard.config.section import Section

_MOST_NAMED = 2


def belongs_to(key: str, found_in: str, top: type[Section]) -> str:
    """`Did you mean X?` with the full path of a key of that name, or nothing where no section has it.

    One in a section of the same name as the one it was found in goes first.
    """
    paths = [path for path in _paths(top) if path.rpartition(".")[2] == key]
    likely = f".{found_in.rpartition('.')[2]}.{key}"
    paths = [path for path in paths if path.endswith(likely)] or paths
    named = " or ".join(f'"{path}"' for path in paths)
    return f"Did you mean {named}?" if 0 < len(paths) <= _MOST_NAMED else ""


@cache
def _paths(top: type[Section]) -> tuple[str, ...]:
    return tuple(_below(top, ""))


def _below(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        if name in section.internal:
            continue
        yield f"{prefix}{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _below(inner, f"{prefix}{name}.")

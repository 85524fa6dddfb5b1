"""Data of the tests, which come with the sources and not with an installed Toolyard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import IO

from toolyard.core.errors import SystemFault

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def lines_of(place: str, open_packed: Callable[..., IO[str]]) -> Iterator[str]:
    """The lines of a packed file of the checkout. `open_packed` is gzip's or lzma's `open`."""
    path = os.path.join(_ROOT, place)
    try:
        with open_packed(path, "rt", encoding="utf-8") as lines:
            yield from lines
    except FileNotFoundError:
        raise SystemFault(
            f"What is measured with is not at {path}.", hint="It comes with the sources: run from a checkout of them."
        ) from None

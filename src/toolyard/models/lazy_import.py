"""Imports pydantic-ai when the first model is opened: it is an optional extra and takes a second or two to import.

The import creates some hundred thousand objects that stay. Meanwhile the garbage collector would scan all of them
repeatedly and pause every thread of the process for a tenth of a second each time. So code that imports in a thread
while others are served runs in `gc_paused`.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

from toolyard.core.errors import SystemFault


def require_library(extra: str) -> None:
    """Raises SystemFault if pydantic-ai is missing; `extra` is the extra of this package that installs it."""
    if find_spec("pydantic_ai") is None:
        raise SystemFault(
            "Model APIs need pydantic-ai, which is not installed.",
            hint=f"`pip install 'toolyard[{extra}]'` installs it.",
        )


@contextmanager
def gc_paused() -> Generator[None]:
    """Disables garbage collection in the whole process, and excludes all present objects from later collections."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_collecting:
            gc.enable()

"""pydantic-ai is an extra and takes a second or two to import: it is asked for here, when the first model is opened.

Importing makes some hundred thousand objects that stay. The collector of garbage would look through all of them again
and again meanwhile, and everybody in the process would wait for it, a tenth of a second each time; so who imports in
a thread, while others are answered, does it `gc_paused`.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

from toolyard.core.errors import SystemFault


def require_library(extra: str) -> None:
    """Raises SystemFault where pydantic-ai is missing; `extra` of this package is what the caller needs it from."""
    if find_spec("pydantic_ai") is None:
        raise SystemFault(
            "Models behind APIs need pydantic-ai, which is not installed.",
            hint=f"`pip install 'toolyard[{extra}]'` brings it.",
        )


@contextmanager
def gc_paused() -> Generator[None]:
    """The collector rests in the whole process, and from then on lets be what there is by then."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_collecting:
            gc.enable()

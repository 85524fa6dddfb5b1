"""Opens closeable objects in a thread, for callers that may be cancelled meanwhile.

A thread cannot be stopped. If its caller has left, the thread closes the object itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar


class _SupportsClose(Protocol):
    def close(self) -> object: ...


T = TypeVar("T", bound=_SupportsClose)


async def open_in_thread(make: Callable[[], T]) -> T:
    """Returns the object that `make` creates. The caller must close it, unless this raises."""
    lock = threading.Lock()
    made: list[T] = []
    is_left = False

    def run() -> None:
        thing = make()
        with lock:
            if not is_left:
                made.append(thing)
                return
        thing.close()

    try:
        await asyncio.shield(asyncio.to_thread(run))
    except asyncio.CancelledError:
        with lock:
            is_left = True
        if made:
            await close_in_thread(made[0])
        raise
    return made[0]


async def close_in_thread(thing: _SupportsClose) -> None:
    """Closes `thing` in a thread and waits. Cancelling the caller does not stop the closing."""
    await asyncio.shield(asyncio.to_thread(thing.close))

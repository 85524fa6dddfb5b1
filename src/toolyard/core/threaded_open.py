"""Something that has to be closed, made in a thread, for one who may be cancelled while it is made.

A thread cannot be stopped. What it makes after its caller has left belongs to nobody, so the thread closes it itself.
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
    """What `make` gives. It is the caller's to close, unless this raises."""
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
    """Close it, and wait for that. Who is cancelled meanwhile does not stop it."""
    await asyncio.shield(asyncio.to_thread(thing.close))

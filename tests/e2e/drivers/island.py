"""A thread with an event loop of its own, and no network but its loopback where the machine lets us.

The kernel gives each thread a network of its own that asks for one. What the thread starts, other threads and
processes alike, is in it too: models, our server and the CLIs see each other and nothing else.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from toolyard.linux.libc import LIBC, check_errno

_NEW_NETWORK = 0x4000_0000
_SET_FLAGS, _UP = 0x8914, 0x1

T = TypeVar("T")


class Island:
    def __init__(self) -> None:
        self.why_not = ""
        """Why it has the network of everybody else."""
        ready: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._main, args=(ready,), name="island")
        self._thread.start()
        self._loop = ready.result()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _main(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            check_errno(LIBC.unshare(_NEW_NETWORK))
        except OSError as error:
            self.why_not = f"no network of one's own for an ordinary user here: {error.strerror}"
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
        asyncio.run(self._live(ready))

    async def _live(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        ready.set_result(asyncio.get_running_loop())
        await self._stop.wait()


def interfaces() -> list[str]:
    """Of whoever asks."""
    with open(f"/proc/self/task/{threading.get_native_id()}/net/dev", encoding="ascii") as file:
        return [line.split(":")[0].strip() for line in file.readlines()[2:]]

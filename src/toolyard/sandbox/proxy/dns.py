"""Resolves names without blocking the event loop.

The system's lookup cannot be interrupted and may take half a minute, so each runs in a daemon thread. The limit
counts running threads, not waiting callers: names whose servers never answer cannot accumulate threads, and no thread
keeps the process from exiting.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable

from toolyard.sandbox.proxy.allow_list import Address

LookupFunction = Callable[[str, int], list[Address]]

MAX_CONCURRENT_LOOKUPS = 16


def system_lookup(host: str, port: int) -> list[Address]:
    """Returns the addresses of a name, in the system's order of preference. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A link-local address comes with its scope behind a percent sign.
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return list(dict.fromkeys(addresses))


class DnsResolver:
    """Resolves names in bounded threads. Belongs to one event loop."""

    def __init__(self, lookup: LookupFunction) -> None:
        self._lookup = lookup
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of a name. Raises OSError if it is unknown."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def deliver(found: list[Address] | OSError) -> None:
            self._slots.release()
            if answer.done():  # the caller has stopped waiting
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def look_up() -> None:
            found: list[Address] | OSError
            try:
                found = self._lookup(host, port)
            except OSError as error:
                found = error
            except ValueError as error:  # UnicodeError: a label that the system's own encoding refuses
                found = OSError(str(error))
            try:
                loop.call_soon_threadsafe(deliver, found)
            except RuntimeError:
                return  # the proxy was closed in the meantime

        threading.Thread(target=look_up, name="toolyard-lookup", daemon=True).start()
        return await answer

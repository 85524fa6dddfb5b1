"""Looking names up without blocking the one thread that asks.

The system's lookup cannot be interrupted and may take half a minute, so each runs in a daemon thread. Their number is
bounded by threads that still run, not by those somebody still waits for: a name whose server never answers cannot
pile them up, and none keeps the process from ending.
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
    """The addresses of a name, in the system's order of preference. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A link-local address comes with its scope behind a percent sign.
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return list(dict.fromkeys(addresses))


class DnsResolver:
    """Belongs to one event loop."""

    def __init__(self, lookup: LookupFunction) -> None:
        self._lookup = lookup
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Raises OSError when the name is unknown."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def deliver(found: list[Address] | OSError) -> None:
            self._slots.release()
            if answer.done():  # nobody waits any more
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
                return  # the proxy was closed meanwhile

        threading.Thread(target=look_up, name="toolyard-lookup", daemon=True).start()
        return await answer

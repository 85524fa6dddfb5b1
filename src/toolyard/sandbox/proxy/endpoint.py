"""The endpoint of the network proxy: a private folder with the proxy's socket, mounted read-only in the sandbox.

`close()` ends the proxy and removes the folder. A folder that a killed server left behind contains only a dead
socket, and the next server removes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from toolyard.core.closeable import Closeable
from toolyard.sandbox.proxy.allow_list import AllowList
from toolyard.sandbox.proxy.server import ProxyServer
from toolyard.storage.private_folders import socket_folder
from toolyard.storage.temp_folders import TemporaryFolder

SOCKET_NAME = "proxy"

OnConnection = Callable[[str, int, bool], None]
"""Called with a host, a port, and whether it was allowed."""


def ignore_connection(host: str, port: int, allowed: bool) -> None:
    """The default callback: ignores connections."""


class ProxyEndpoint(Closeable):
    """The proxy and its folder."""

    def __init__(self, folder: TemporaryFolder, proxy: ProxyServer) -> None:
        self.folder = folder.path
        self._temp_folder = folder
        self._proxy = proxy

    @classmethod
    def open(cls, allowed: Sequence[str], on_connection: OnConnection) -> ProxyEndpoint:
        """Starts a proxy for the allowed hosts in a new private folder."""
        folder = TemporaryFolder("door", socket_folder())
        try:
            return cls(folder, ProxyServer(os.path.join(folder.path, SOCKET_NAME), AllowList(allowed), on_connection))
        except BaseException:
            folder.close()
            raise

    def close(self) -> None:
        self._proxy.close()
        self._temp_folder.close()

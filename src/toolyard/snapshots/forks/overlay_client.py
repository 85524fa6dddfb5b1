"""Client of the helper process that holds overlays in namespaces of its own (`linux/overlay_process.py`).

An OverlayClient owns that process until `close()`; when the host is killed the process ends with it, and so do its
mounts. This process reaches a path of that namespace as `host_path(path)`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading

import toolyard
from toolyard.core.closeable import Closeable

_OPTIONS = ("--user", "--map-current-user", "--keep-caps", "--mount")
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from toolyard.linux.overlay_process import main; main()"
_END_SECONDS = 5.0
_NONE = "unprivileged user namespaces are not available"


class OverlayClient(Closeable):
    """Mounts and unmounts overlays in a helper process."""

    def __init__(self) -> None:
        """Starts the helper process. Raises OSError where unprivileged user namespaces are not available."""
        program, nsenter = shutil.which("unshare"), shutil.which("nsenter")
        if program is None or nsenter is None:
            raise FileNotFoundError(errno.ENOENT, "unshare or nsenter is not installed")
        self._nsenter = nsenter
        self._request_lock = threading.Lock()
        source = os.path.dirname(os.path.dirname(os.path.abspath(toolyard.__file__)))
        self._process = subprocess.Popen(
            (program, *_OPTIONS, sys.executable, "-I", "-S", "-B", "-c", _CODE, source),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal must reach only this process
        )
        try:
            self._request("ready")
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def enter_command(self) -> tuple[str, ...]:
        """Returns the command prefix that runs a command in the same namespaces, with the user's own rights."""
        # unshare execs the helper, so its pid is that of the process in the namespaces.
        target = ("--target", str(self._process.pid))
        return (self._nsenter, "--user", "--mount", *target, "--preserve-credentials", "--")

    def host_path(self, path: str) -> str:
        """Returns the path by which this process reaches a path of that namespace."""
        return f"/proc/{self._process.pid}/root{path}"

    def mount(self, lower: str, upper: str, work: str, target: str) -> None:
        """Mounts an overlay at `target` in the helper process. Raises OSError."""
        self._request("mount", lower, upper, work, target)

    def unmount(self, target: str) -> None:
        """Unmounts the overlay at `target`. Raises OSError."""
        self._request("unmount", target)

    def _request(self, *words: str) -> None:
        with self._request_lock:
            into, out = self._process.stdin, self._process.stdout
            if into is None or out is None or into.closed:
                raise BrokenPipeError(errno.EPIPE, _NONE)
            into.write(json.dumps(words).encode() + b"\n")
            into.flush()
            answer = out.readline()
        if not answer:
            raise BrokenPipeError(errno.EPIPE, _NONE)
        if number := int(answer):
            raise OSError(number, os.strerror(number), words[-1])

    def close(self) -> None:
        """Ends the helper process, which removes its mounts."""
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

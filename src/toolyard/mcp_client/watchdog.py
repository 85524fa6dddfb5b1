"""Ends servers, and all that they started, when this process ends without having done so: killed, say.

A `Watchdog` owns one small process (a shell) that reads which process groups there are from a pipe. This process has
the only writing end. At the end of its input, which comes when this process ends however that happens, it kills the
groups it knows. A group is told before its program begins, and forgotten before its number can be used again.

A tether of the kernel's (`fs.tether`) would not do for servers: it needs somebody in the group to hold it, and a
server that sees its input end and exits at once lets go of it before it is pulled. Its own children would stay.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading

from toolyard.core.closeable import Closeable

_SCRIPT = """
groups=
while read -r what group; do
    case $what in
        +) groups="$groups -$group" ;;
        -) rest=
           for each in $groups; do [ "$each" = "-$group" ] || rest="$rest $each"; done
           groups=$rest ;;
    esac
done
[ -z "$groups" ] || kill -s KILL -- $groups
"""
_END_SECONDS = 5.0


class Watchdog(Closeable):
    """From any thread. Started with the first group, and again should somebody have ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def add_group(self, group: int) -> None:
        """Raises OSError where no shell can be started."""
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+ {group}"):
                self._start()

    def remove_group(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._send(f"- {group}")

    def close(self) -> None:
        with self._lock:
            self._groups.clear()
            self._end()

    def _start(self) -> None:
        self._end()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            start_new_session=True,  # what is typed at our terminal is not for it
        )
        for group in self._groups:
            self._send(f"+ {group}")

    def _send(self, line: str) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())
            return True
        return False

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # stopped by somebody
            process.kill()
            process.wait()

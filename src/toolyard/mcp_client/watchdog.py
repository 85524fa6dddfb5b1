"""Kills servers and their children if this process ends without stopping them, for example if it is killed.

A `Watchdog` owns one small shell process that reads process groups from a pipe, of which this process has the only
write end. At end of input, which comes when this process ends in any way, it kills the registered groups. A group is
registered before its program starts, and removed before its number can be reused.

A kernel mechanism such as `files.die_with_parent` does not suffice: a process in the group must hold it, and a server
that exits at the end of its input releases it too early, so that its children survive.
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
    """Kills registered process groups. Thread-safe.

    Its shell starts with the first group, and restarts if it was ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def add_group(self, group: int) -> None:
        """Registers a group. Raises OSError if no shell can be started."""
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+ {group}"):
                self._start()

    def remove_group(self, group: int) -> None:
        """Removes a group."""
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
            start_new_session=True,  # terminal signals must not reach it
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
        except subprocess.TimeoutExpired:  # it was stopped by a signal
            process.kill()
            process.wait()

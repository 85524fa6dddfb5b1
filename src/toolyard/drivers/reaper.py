"""The reaper of one run: starts an agent CLI and leaves nothing of it behind, even if Toolyard is killed.

A separate program (standard library only, started by path). It holds one end of the control socket, Toolyard the
other. When the CLI ends, the reaper reports it; when the control socket closes, because Toolyard closed it or was
killed, it ends the CLI. In both cases it then kills all remaining processes of the CLI, including those in other
sessions and orphans (it is their subreaper), and removes the run's folder.

Messages from Toolyard: `T` sends SIGTERM to the CLI's process group. Messages to Toolyard: `exit N`, negative for a
signal, or `none WHY` if the program could not be started.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ENDING_SECONDS = 5.0
_PAUSE_SECONDS = 0.01
_CHUNK = 4096
_PIPE_BYTES = 1 << 20
"""Unread output: a CLI that exits does not wait for its reader, and loses what does not fit into the pipe."""
_libc = ctypes.CDLL(None, use_errno=True)


def main(control_socket: socket.socket, folder: str, stdin_path: str, command: list[str]) -> None:
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup_fd, signal_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(signal_fd, warn_on_full_buffer=False)
    # Only the control socket ends the reaper. The signals are handled, not ignored: the CLI would inherit SIG_IGN.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _on_signal)
    with contextlib.suppress(OSError):  # the user's limit for pipe buffers is reached
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        child = _start_cli(command, stdin_path)
    except OSError as error:
        _send_report(control_socket, f"none {error.strerror or error}")
    else:
        _close_output()
        _watch(child, control_socket, wakeup_fd)
        codes = _end_all(child)
        _send_report(control_socket, f"exit {codes[child]}" if child in codes else "lost")
    finally:
        _make_removable(folder)
        shutil.rmtree(folder, ignore_errors=True)
        control_socket.close()


def _on_signal(_number: int, _frame: object) -> None:
    """Does nothing: the wakeup descriptor carries the signal."""


def _start_cli(command: list[str], stdin_path: str) -> int:
    """Starts the CLI with a file as stdin and returns its pid. `_reap` collects its exit status."""
    reaper_pid = os.getpid()

    def die_with_reaper() -> None:
        # If the reaper is killed, at least the CLI dies with it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != reaper_pid:  # the reaper was killed before the call above
            os._exit(1)

    with open(stdin_path, "rb") as stdin:
        child = subprocess.Popen(command, stdin=stdin, process_group=0, preexec_fn=die_with_reaper)  # noqa: PLW1509
    child.returncode = 0  # `_reap` waits for it, not this object
    return child.pid


def _close_output() -> None:
    """Closes our copies of the output, so that it ends with the CLI's processes."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def _watch(child: int, control_socket: socket.socket, wakeup_fd: int) -> None:
    """Waits until the CLI has ended (without reaping it) or the control socket is closed."""
    poller = select.poll()
    poller.register(control_socket, select.POLLIN)
    poller.register(wakeup_fd, select.POLLIN)
    while True:
        if _has_ended(child):
            return
        for fd, _ in poller.poll():
            if fd == wakeup_fd:
                with contextlib.suppress(BlockingIOError):
                    os.read(wakeup_fd, _CHUNK)
                continue
            try:
                message = control_socket.recv(_CHUNK)
            except OSError:
                message = b""
            if not message:
                return
            if b"T" in message:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGTERM)


def _has_ended(child: int) -> bool:
    """Whether the CLI has ended. It stays unreaped so that its pid still names its group; others are reaped."""
    try:
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == child:
                return True
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return True
    return False


def _end_all(child: int) -> dict[int, int]:
    """Kills every descendant. Stops all of them first, so that none can start another one.

    Returns the exit codes of children by pid.
    """
    codes: dict[int, int] = {}
    until = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < until:
        held: set[int] = set()
        while (fresh := _descendants() - held) and time.monotonic() < until:
            for pid in fresh:
                _signal(pid, signal.SIGSTOP)
            held |= fresh
        for pid in held:
            _signal(pid, signal.SIGKILL)
        if child not in codes:  # after reaping, the number may belong to another group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # all that is possible without /proc
        if not _reap(codes):
            break
        time.sleep(_PAUSE_SECONDS)
    return codes


def _descendants() -> set[int]:
    """Returns the descendants of this process that have not ended."""
    parents: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return set()
    for name in names:
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in {b"Z", b"X"}:
                parents[int(name)] = int(parent)
    mine = {os.getpid()}
    while fresh := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= fresh
    return mine - {os.getpid()}


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _reap(codes: dict[int, int]) -> bool:
    """Collects exit codes of ended children. Returns whether any child is left."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        return False
    return True


def _make_removable(folder: str) -> None:
    """Restores access to folders that the CLI may have made unreadable for their owner."""
    for path, names, _ in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                inside = os.path.join(path, name)
                if not os.path.islink(inside):
                    os.chmod(inside, 0o700)


def _send_report(control_socket: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        control_socket.sendall(text.encode() + b"\n")


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3], sys.argv[4:])

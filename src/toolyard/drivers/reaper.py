"""The keeper of one run: starts an agent CLI, and leaves nothing of it behind, whatever happens to us.

A program of its own (standard library only, started by path). It holds one end of the leash, a socket; Toolyard holds
the other. When the CLI ends, the keeper says so; when the leash ends, because Toolyard closed it or was killed,
it ends the CLI. Either way it then ends every process the CLI has left, also those that made a session of their own
or whose parent is gone (they become the keeper's children), and removes the run's folder.

On the leash, from Toolyard: `T` sends the CLI's group SIGTERM. To Toolyard: `exit N`, with a signal as a negative
number, or `none WHY` where the program could not be started.
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
"""Of output that nobody has read yet: a CLI that exits does not wait for it, and loses what found no room."""
_libc = ctypes.CDLL(None, use_errno=True)


def main(control_socket: socket.socket, folder: str, stdin_path: str, command: list[str]) -> None:
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    # It ends with the leash, and only then. Handled, not ignored: what is ignored stays so in the CLI.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _on_signal)
    with contextlib.suppress(OSError):  # others of this user hold many
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        child = _start_cli(command, stdin_path)
    except OSError as error:
        _send_report(control_socket, f"none {error.strerror or error}")
    else:
        _close_output()
        _watch(child, control_socket, heard)
        codes = _end_all(child)
        _send_report(control_socket, f"exit {codes[child]}" if child in codes else "lost")
    finally:
        _make_removable(folder)
        shutil.rmtree(folder, ignore_errors=True)
        control_socket.close()


def _on_signal(_number: int, _frame: object) -> None:
    """The descriptor that wakes us says all there is to say."""


def _start_cli(command: list[str], stdin_path: str) -> int:
    """The CLI's pid, with a file as its input. Its end is taken with everybody else's, by `_reap`."""
    keeper = os.getpid()

    def die_with_reaper() -> None:
        # Should the keeper itself be killed, at least the CLI goes with it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:  # it was killed before that could be said
            os._exit(1)

    with open(stdin_path, "rb") as stdin:
        child = subprocess.Popen(command, stdin=stdin, process_group=0, preexec_fn=die_with_reaper)  # noqa: PLW1509
    child.returncode = 0  # nobody waits for it through this object
    return child.pid


def _close_output() -> None:
    """From now on the output ends when the CLI's processes do."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def _watch(child: int, control_socket: socket.socket, wakeup_fd: int) -> None:
    """Wait for the end of the CLI, which is not reaped, or of the leash."""
    looking = select.poll()
    looking.register(control_socket, select.POLLIN)
    looking.register(wakeup_fd, select.POLLIN)
    while True:
        if _has_ended(child):
            return
        for fd, _ in looking.poll():
            if fd == wakeup_fd:
                with contextlib.suppress(BlockingIOError):
                    os.read(wakeup_fd, _CHUNK)
                continue
            try:
                said = control_socket.recv(_CHUNK)
            except OSError:
                said = b""
            if not said:
                return
            if b"T" in said:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGTERM)


def _has_ended(child: int) -> bool:
    """Whether the CLI has. It stays unreaped, so that its number is surely its group's; other children are reaped."""
    try:
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == child:
                return True
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return True
    return False


def _end_all(child: int) -> dict[int, int]:
    """End every descendant. All of them are held first, so that none can start another in the meantime.

    Returns the exit codes of children by their pids.
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
        if child not in codes:  # afterwards the number may be another group's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # all that can be done where there is no /proc
        if not _reap(codes):
            break
        time.sleep(_PAUSE_SECONDS)
    return codes


def _descendants() -> set[int]:
    """Of this process, as they are now, without those that have ended."""
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
    """Take the ends of children, and note them. Whether there is still one."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        return False
    return True


def _make_removable(folder: str) -> None:
    """A CLI may have closed folders even to their owner."""
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

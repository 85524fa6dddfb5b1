"""bash: a shell that waits for a command, or one that replaces a worker.

A waiting shell has everything loaded and reads the working folder and the command from its descriptor 4. It reads
byte by byte, as shells do, so a long command takes another way: a worker becomes bash and has the text in memory.
"""

from __future__ import annotations

import os

from toolyard_runtime import protocol
from toolyard_runtime.pipes import open_worker_pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

REPLY_FD = 3
"""Where a command's shell reports its last folder, and Python its results."""
REQUEST_FD = 4
_MAX_PIPED_CHARS = 4_000  # characters that a waiting shell is given to read

# The next command starts in the folder in which this one ends. The trap reports it, however the command ends.
_REPORT_FOLDER = "trap 'pwd -P >&3 2>/dev/null' EXIT; "
_RUN_ARGUMENT = f'{_REPORT_FOLDER}REPLY=$1; shift; eval "$REPLY"'
# The kernel limits an argument to 128 KiB, so a longer command is read from a memory file.
_READ = f"IFS= read -r -d '' -u {REQUEST_FD}"
_RUN_FROM_FILE = f'{_REPORT_FOLDER}{_READ}; exec {REQUEST_FD}<&-; eval "$REPLY"'
_WAIT_FOR_COMMAND = (
    f'{_READ} || exit; cd -- "$REPLY" 2>/dev/null || {{ echo "The run cannot start in $REPLY: it does not exist" >&2'
    f'; exit 1; }}; {_READ}; exec {REQUEST_FD}<&-; {_REPORT_FOLDER}eval "$REPLY"'
)
_BASH = ("bash", "--noprofile", "--norc", "-c")
_MAX_ARGUMENT_BYTES = 100_000
_NOT_FOUND = 127
_DEFAULT_SIGNALS = (_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGINT, _signal.SIGTERM, _signal.SIGXFSZ)


def open_pipes_with_socket() -> tuple[list[int], list[int]]:
    """Returns the pipes, but with a socket for requests, which no other process can open through /proc."""
    import _socket

    ours, theirs = open_worker_pipes()
    for fd in (ours[0], theirs[0]):
        os.close(fd)
    near, far = _socket.socketpair()
    ours[0], theirs[0] = near.detach(), far.detach()
    os.set_blocking(ours[0], False)
    return ours, theirs


def spawn_waiting_shell(shell: str, environment: dict[str, str], fds: list[int], prepare: str) -> int:
    """Starts a shell that executes `prepare` and waits for its command; returns its pid. Raises OSError."""
    requests, reply, out, err = fds
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        *((os.POSIX_SPAWN_DUP2, fd, target) for target, fd in ((1, out), (2, err), (REPLY_FD, reply))),
        (os.POSIX_SPAWN_DUP2, requests, REQUEST_FD),
    ]
    line = (*_BASH, prepare + _WAIT_FOR_COMMAND)
    return os.posix_spawn(shell, line, environment, file_actions=actions, setsid=True, setsigdef=_DEFAULT_SIGNALS)


def become_waiting_shell(shell: str) -> None:
    """Replaces this process with a shell that waits for its command. Never returns."""
    os.set_inheritable(REPLY_FD, True)  # noqa: FBT003 - the call takes nothing else
    os.set_inheritable(REQUEST_FD, True)  # noqa: FBT003
    os.execve(shell, (*_BASH, _WAIT_FOR_COMMAND), os.environ)  # noqa: S606 - this process becomes the shell


def fits_waiting_shell(folder: str, command: str) -> bool:
    """Whether a waiting shell can read this command."""
    return len(command) <= _MAX_PIPED_CHARS and "\0" not in command and "\0" not in folder


def encode_command(folder: str, command: str) -> bytes:
    """Returns the bytes that a waiting shell reads."""
    return b"\0".join((folder.encode("utf-8", "surrogateescape"), command.encode("utf-8", "surrogateescape"), b""))


def become_shell(shell: str, command: str) -> None:
    """Replaces this process with a shell that runs `command`. Never returns."""
    code = command.encode("utf-8", "surrogateescape")
    line = [*_BASH, _RUN_ARGUMENT, "bash", code]
    os.set_inheritable(REPLY_FD, True)  # noqa: FBT003 - the call takes nothing else
    try:
        if len(code) > _MAX_ARGUMENT_BYTES:
            line = [*_BASH, _RUN_FROM_FILE]
            _put_in_memory_file(code)
        os.execve(shell, line, os.environ)  # noqa: S606 - this process becomes the shell
    except OSError as error:
        os.write(2, f"{shell} cannot be run: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND)


def _put_in_memory_file(code: bytes) -> None:
    """Puts the command where `_RUN_FROM_FILE` reads it: at the descriptor for requests, which is no longer needed."""
    fd = os.memfd_create("command", os.MFD_CLOEXEC)
    protocol.write_all(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, REQUEST_FD)

"""A worker: the process that one run (or one Python session) takes place in.

The warden forks it ahead of time. It waits on its pipe for one request; a command makes it become bash, Python code
runs in this very process. It holds nothing of the warden's: every descriptor but its own four is closed first.
"""

from __future__ import annotations

import os
import resource
import select
import sys

from toolyard_runtime import walls, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NotRequired, TypedDict

    class Setup(TypedDict):
        """What the host decides once for the whole sandbox."""

        pid_max: int
        landlock: bytes
        landlock_rules: list[tuple[str, int, int]]
        seccomp: bytes
        scratch: NotRequired[str]
        """A folder that goes when the sandbox does, also when the host cannot see to it any more."""
        walls_in_worker: bool
        """Workers alone are walled in: the warden must stay outside of what they may signal."""
        forward: str
        """The socket of the proxy that leads to the allowed hosts, empty when there are none."""
        forward_port: int

    class Request(TypedDict):
        """One run. `session` is empty for one that stands alone."""

        what: str
        code: str
        session: str
        folder: str
        shell: str
        environment: dict[str, str]
        limits: dict[str, int]
        output_bytes: int

else:
    import _signal

REPLY_FD = 3
"""Where a command's shell reports its last folder, and Python its results."""

_UNLIMITED = resource.RLIM_INFINITY
_RESOURCES = {
    "cpu_seconds": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_DATA,  # RLIMIT_AS would stop programs that reserve more than they use (Node, Go)
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
    "file_bytes": resource.RLIMIT_FSIZE,
    "core_bytes": resource.RLIMIT_CORE,
}
# The folder a command ends in is where the next one starts. The trap tells it, whatever way the command ends.
_SHELL = "trap 'pwd -P >&3' EXIT; eval \"$1\""
# The kernel takes no longer argument than 128 KiB, so a long command is read from a file in memory.
_LONG_SHELL = "trap 'pwd -P >&3' EXIT; IFS= read -r -d '' -u 4; exec 4<&-; eval \"$REPLY\""
_LONGEST_ARGUMENT = 100_000
_NOT_FOUND = 127
_HIGHEST_FD = 1 << 16


NOTEBOOK = "toolyard_runtime.notebook"
# The first steps towards workers that start quickly. The warden takes one after another while it is idle.
FIRST_STEPS = ("site", NOTEBOOK)
_WARM_UP_AFTER_MS = 3


def main(requests: int, reply: int, out: int, err: int, setup: Setup) -> None:
    """Never returns."""
    code = 1
    try:
        _detach(requests, reply, out, err)
        if os.getppid() != 1:
            walls.end_with_parent()
        if setup["walls_in_worker"]:
            walls.drop_capabilities()
            walls.raise_walls(setup["landlock"], setup["landlock_rules"], setup["seccomp"])
        walls.set_readable(by_siblings=True)
        _serve(REPLY_FD + 1)
        code = 0
    except EOFError:  # the warden is gone or has no use for us
        code = 0
    finally:
        os._exit(code)


def forward(port: int, socket_path: str) -> None:
    """Be the process that leads to the allowed hosts. Never returns."""
    try:
        os.setsid()
        _default_signals()
        os.closerange(3, _HIGHEST_FD)
        from toolyard_runtime import forward as forwarding

        forwarding.serve(forwarding.listen(port), socket_path)
    finally:
        os._exit(1)


def _default_signals() -> None:
    for number in (_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.set_wakeup_fd(-1)


def _detach(requests: int, reply: int, out: int, err: int) -> None:
    os.setsid()
    _default_signals()
    # Through high numbers first, so that none is overwritten before it is used.
    high = [_moved_up(fd) for fd in (out, err, reply, requests)]
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    for target, fd in enumerate(high, start=1):
        os.dup2(fd, target, inheritable=target <= 2)
    os.closerange(REPLY_FD + 2, _HIGHEST_FD)


def _moved_up(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)


def preload(module: str) -> tuple[str, ...]:
    """Import a module as the agent's code will find it, and tell which come next.

    One that this Python lacks is left for the code to miss.
    """
    try:
        __import__(module)
    except ImportError:
        return ()
    if module == "site":
        _see_installed_packages()
    if module == NOTEBOOK:
        from toolyard_runtime import notebook

        return (*notebook.PRELOADED, _LAST_STEP)
    if module == _LAST_STEP:
        from toolyard_runtime import notebook

        notebook.preload()
    return ()


_LAST_STEP = "gc"
_packages_seen: list[bool] = []


def _see_installed_packages() -> None:
    """What Python does at its own start, if it is not told to start without, which is quicker."""
    if not _packages_seen:
        import site

        site.main()
        _packages_seen.append(True)


def _serve(requests: int) -> None:
    _warm_up(requests)
    request = _next(requests)
    try:
        _prepare(request)
    except OSError as error:
        os.write(2, f"The run cannot start in {request['folder']}: {error.strerror}\n".encode())
        os._exit(1)
    if request["what"] == "command":
        _become_shell(request)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)  # as in every Python: a broken pipe is an exception
    _see_installed_packages()
    from toolyard_runtime.notebook import Notebook

    notebook = Notebook()
    while request["session"]:
        _answer(notebook.run(request["code"]))
        request = _next(requests)
    answer = notebook.run(request["code"])
    notebook.close()
    _answer(answer)


def _warm_up(requests: int) -> None:
    """Touch the memory that Python code will need, unless there is work to do: the first touch is what costs."""
    if NOTEBOOK not in sys.modules:
        return
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    if not waiting.poll(_WARM_UP_AFTER_MS):
        from toolyard_runtime.notebook import Notebook

        Notebook().run("0")


def _next(requests: int) -> Request:
    (length,) = wire.LITTLE_LENGTH.unpack(wire.read_exactly(requests, wire.LITTLE_LENGTH.size))
    return wire.unpacked(wire.read_exactly(requests, length))  # type: ignore[return-value]


def _prepare(request: Request) -> None:
    os.chdir(request["folder"])
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(request["environment"])
    for name, value in request["limits"].items():
        which = _RESOURCES[name]
        _, hard = resource.getrlimit(which)
        most = value if hard == _UNLIMITED else min(value, hard)
        resource.setrlimit(which, (most, most))


def _become_shell(request: Request) -> None:
    os.set_inheritable(REPLY_FD, True)  # noqa: FBT003 - the call takes nothing else
    shell = request["shell"]
    code = request["code"].encode("utf-8", "surrogateescape")
    line = [b"bash", b"--noprofile", b"--norc", b"-c", _SHELL.encode(), b"bash", code]
    try:
        if len(code) > _LONGEST_ARGUMENT:
            line[4:] = [_LONG_SHELL.encode(), b"bash", b""]
            _place_in_memory(code)
        os.execve(shell, line, os.environ)  # noqa: S606 - this process becomes the shell
    except OSError as error:
        os.write(2, f"{shell} cannot be run: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND)


def _place_in_memory(code: bytes) -> None:
    """Where `_LONG_SHELL` reads it: the descriptor that requests came from is not needed any more."""
    fd = os.memfd_create("command", os.MFD_CLOEXEC)
    wire.write_all(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, REPLY_FD + 1)


def _answer(answer: dict[str, Any]) -> None:
    import json

    body = json.dumps(answer).encode("utf-8", "backslashreplace")
    wire.write_all(REPLY_FD, wire.LITTLE_LENGTH.pack(len(body)) + body)

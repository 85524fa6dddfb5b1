"""A worker: the process in which one run (or one Python session) takes place.

The supervisor forks it ahead of time. It waits on its pipe for one request; for a command it becomes bash, Python
code runs in this very process. It closes every descriptor except its own four, so it has none of the supervisor's.
"""

from __future__ import annotations

import gc
import os
import select
import sys

from toolyard_runtime import hardening, json_encode, limits, protocol, scheduling, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    import socket
    from typing import Any

    from toolyard_runtime.messages import Recording, Request, Setup
    from toolyard_runtime.notebook import Notebook
else:
    import _signal

_HIGHEST_FD = 1 << 16
_UMASK = 0o022
_INTERRUPTED = 130
"""The exit code that a shell reports for a process that SIGINT ended."""

NOTEBOOK = "toolyard_runtime.notebook"
# The first preloading steps for fast workers. The supervisor takes one at a time while it is idle.
FIRST_STEPS = ("site", NOTEBOOK)
_WARM_UP_AFTER_MS = 3
_BROKER = "TOOLYARD_BROKER"
_TOOL_MODULES = tuple(f"toolyard_runtime.{name}" for name in ("importer", "calls", "channel", "tool"))


def main(requests: int, reply: int, out: int, err: int, setup: Setup) -> None:
    """Runs the worker: restricts itself, waits for a request and executes it. Never returns."""
    code = 1
    try:
        _detach(requests, reply, out, err)
        limits.apply_limits(setup["limits"])
        if os.getppid() != 1:
            hardening.die_with_parent()
        if setup["walls_in_worker"]:
            _inherit_broker_socket(setup)
            hardening.drop_capabilities()
            hardening.apply_restrictions(setup["landlock"], setup["landlock_rules"], setup["seccomp"])
        _serve(setup["shell"], _warm_up_notebook(), setup.get("recording"))
        code = 0
    except EOFError:  # the supervisor has exited or does not need this worker
        code = 0
    except KeyboardInterrupt:  # before any code ran that could handle it
        code = _INTERRUPTED
    finally:
        os._exit(code)


def run_waiting_shell(requests: int, reply: int, out: int, err: int, setup: Setup) -> None:
    """Becomes a shell that waits for its command. Never returns."""
    code = 1
    try:
        _detach(requests, reply, out, err)
        limits.apply_limits(setup["limits"])
        shell.become_waiting_shell(setup["shell"])
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        os._exit(code)


def run_first_worker(requests: int, reply: int, out: int, err: int) -> None:
    """Runs the worker that was forked before the supervisor had its setup (`bootstrap`). Never returns."""
    code = 1
    try:
        _detach(requests, reply, out, err)
        from toolyard_runtime.notebook import Notebook

        setup: Setup = _read_message()
        apply_environment(setup)
        hardening.set_dumpable(enabled=False)
        limits.apply_limits(setup["limits"])
        hardening.apply_restrictions(setup["landlock"], setup["landlock_rules"], setup["seccomp"])
        os.write(shell.REPLY_FD, b"\0")
        gc.freeze()  # the existing objects are not the code's: the collector can skip them when the code ends
        _serve(setup["shell"], Notebook())
        code = 0
    except EOFError:
        code = 0
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        os._exit(code)


def _inherit_broker_socket(setup: Setup) -> None:
    """Connects to the broker, for code that may not connect itself."""
    path = setup.get("hand")
    if path:
        from toolyard_runtime import inherited_socket

        inherited_socket.connect_at_descriptor(path, setup.get("hand_at", 0))


def apply_environment(setup: Setup) -> None:
    """Sets the umask and the environment that every process of the sandbox starts with."""
    os.umask(_UMASK)
    os.environ.clear()
    os.environ.update(setup["environment"])


def enter_file_system(setup: Setup) -> None:
    """Enters the file system for runs and checks its mounts. Raises OSError."""
    if "mounts" in setup:  # no other program has built the file system
        from toolyard_runtime import mounts

        mounts.bring_up_loopback()
        mounts.enter(setup.get("mounts", []), setup.get("runtime", ""))
    if setup["shown"] or setup["hidden"]:
        from toolyard_runtime import mount_check

        mount_check.check_mounts(setup["shown"], setup["hidden"])
    if setup["pid_max"]:
        with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
            file.write(str(setup["pid_max"]))
    if "mounts" in setup:
        hardening.drop_capabilities()


def fork_forwarder(setup: Setup) -> int:
    """Starts the process that forwards to the network proxy; returns its pid."""
    from toolyard_runtime import proxy_forwarder

    listener = proxy_forwarder.listen(
        setup["forward_port"]
    )  # before the fork, so that the next connection is not lost
    pid = os.fork()
    if pid == 0:
        _run_forwarder(listener, setup["forward"])
    listener.close()
    return pid


def _run_forwarder(listener: socket.socket, socket_path: str) -> None:
    """Forwards to the network proxy. Never returns."""
    try:
        os.setsid()
        _default_signals()
        listener_fd = listener.fileno()
        os.closerange(3, listener_fd)
        os.closerange(listener_fd + 1, _HIGHEST_FD)
        from toolyard_runtime import proxy_forwarder as forwarding

        forwarding.serve(listener, socket_path)
    finally:
        os._exit(1)


def _default_signals() -> None:
    for number in (_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGTERM, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.set_wakeup_fd(-1)


def _detach(requests: int, reply: int, out: int, err: int) -> None:
    os.setsid()
    _default_signals()
    # Move them to high numbers first, so that none is overwritten before it is used.
    high = [_dup_high(fd) for fd in (out, err, reply, requests)]
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    for target, fd in enumerate(high, start=1):
        os.dup2(fd, target, inheritable=target <= 2)
    os.closerange(shell.REQUEST_FD + 1, _HIGHEST_FD)


def _dup_high(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)


def preload(module: str) -> tuple[str, ...]:
    """Imports a module that agent code will need, and returns the modules to import next.

    A module that this Python lacks is skipped: the code gets the ImportError.
    """
    try:
        __import__(module)
    except ImportError:
        return ()
    if module == "site":
        _enable_site_packages()
    if module == NOTEBOOK:
        from toolyard_runtime import notebook

        tools = _TOOL_MODULES if _BROKER in os.environ else ()
        return (*notebook.PRELOADED, *tools, _LAST_STEP)
    if module == _LAST_STEP:
        from toolyard_runtime import notebook

        notebook.preload()
    return ()


_LAST_STEP = "gc"
_site_enabled: list[bool] = []


def _enable_site_packages() -> None:
    """Runs `site.main()`, as Python does at its start unless told to skip it, which is faster."""
    if not _site_enabled:
        import site

        site.main()
        _site_enabled.append(True)


def _serve(program: str, notebook: Notebook | None, recording: Recording | None = None) -> None:
    request: Request = _read_message()
    scheduling.set_default_slice()
    if recording is not None and request.get("records"):
        from toolyard_runtime import change_listener

        change_listener.install(recording, shell.REQUEST_FD)
    hardening.set_dumpable(enabled=True)  # off until now, so that no other run could control the waiting worker
    try:
        os.chdir(request["folder"])
    except OSError as error:
        os.write(2, f"The run cannot start in {request['folder']}: {error.strerror}\n".encode())
        os._exit(1)
    if request["what"] == "command":
        shell.become_shell(program, request["code"])
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # as in every Python, where they become exceptions
        _signal.signal(number, _signal.SIG_IGN)
    if request["session"] or "import" in request["code"]:
        _enable_site_packages()
    if _BROKER in os.environ:
        from toolyard_runtime import importer as packages

        packages.install()
    from toolyard_runtime.notebook import Notebook

    gc.freeze()
    notebook = notebook or Notebook()
    while request["session"]:
        _send_answer(_run_code(notebook, request["code"]))
        request = _read_message()
    answer = _run_code(notebook, request["code"])
    notebook.close()
    scheduling.set_background_slice()
    _send_answer(answer)


def _run_code(notebook: Notebook, code: str) -> dict[str, Any]:
    """Runs the code; adds the skills that it was the first to import."""
    answer = notebook.run(code)
    packages = sys.modules.get("toolyard_runtime.importer")
    if packages is not None and (skills := packages.skills_used()):
        answer["skills"] = skills
    return answer


def _warm_up_notebook() -> Notebook | None:
    """Touches the memory that Python code will need, unless a request waits: the first access is what takes time."""
    if NOTEBOOK not in sys.modules:
        return None
    waiting = select.poll()
    waiting.register(shell.REQUEST_FD, select.POLLIN)
    if waiting.poll(_WARM_UP_AFTER_MS):
        return None
    from toolyard_runtime.notebook import Notebook

    Notebook().run("0")
    return Notebook()


def _read_message() -> Any:
    (length,) = protocol.LENGTH_PREFIX.unpack(protocol.read_exactly(shell.REQUEST_FD, protocol.LENGTH_PREFIX.size))
    return protocol.unpack_values(protocol.read_exactly(shell.REQUEST_FD, length))


def _send_answer(answer: dict[str, Any]) -> None:
    body = json_encode.encode_json(answer).encode("ascii")
    protocol.write_all(shell.REPLY_FD, protocol.LENGTH_PREFIX.pack(len(body)) + body)

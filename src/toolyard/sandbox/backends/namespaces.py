"""The tier without bubblewrap: the same namespaces, created by util-linux's `unshare`, and the same file system.

`unshare` starts the supervisor as the first process of the new namespaces, with every capability in them. The
supervisor makes the mounts itself (`toolyard_runtime.mounts`), gives up the host's root and its capabilities, and
applies the restrictions before its first run. `unshare` is our child and waits for the supervisor; if it is killed,
the kernel kills the supervisor.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import time

from toolyard.core.errors import SystemFault
from toolyard.sandbox import guest_layout, mount_plan
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.process.client import SocketChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import SandboxSpec, Tier

_OPTIONS = (
    *("--user", f"--map-user={guest_layout.USER_ID}", f"--map-group={guest_layout.USER_ID}", "--keep-caps"),
    *("--mount", "--ipc", "--uts", "--net", "--cgroup", "--pid", "--fork", "--kill-child"),
)
_START_SECONDS = 5.0
_POLL_SECONDS = 0.001


def find_unshare() -> str | None:
    """Returns the path of `unshare`; None if it is not installed."""
    return shutil.which("unshare")


_programs_that_mount: set[str] = set()
"""Programs that have made mounts. One that failed is tried again: the reason may have passed."""


def can_mount(program: str) -> bool:
    """Whether this machine lets an ordinary program create such namespaces, and mounts in them."""
    if program in _programs_that_mount:
        return True
    tried = (program, *_OPTIONS, "mount", "-t", "tmpfs", "tmpfs", guest_layout.TEMPORARY)
    try:
        done = subprocess.run(tried, capture_output=True, timeout=_START_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode == 0:
        _programs_that_mount.add(program)
    return done.returncode == 0


def namespaces_sandbox(program: str) -> ProcessSandbox:
    """Creates a sandbox of this tier, not started."""
    return ProcessSandbox(Tier.NAMESPACES, functools.partial(launch_supervisor, program))


def launch_supervisor(program: str, spec: SandboxSpec) -> LaunchedSupervisor:
    """Starts the supervisor in new namespaces."""
    python = guest_layout.own_interpreter()
    pid_max = guest_layout.pid_max(spec.limits)
    restrictions = Restrictions.build(mount_plan.writable_paths(spec), own_network=True).setup_fields(
        pid_max=pid_max, in_worker=False
    )
    steps = [step.as_tuple() for step in mount_plan.mount_steps(spec, python, sets_pid_max=pid_max > 0)]
    runtime = os.path.dirname(guest_layout.runtime_folder())
    ours, theirs = socket.socketpair()
    with theirs:
        command = guest_layout.supervisor_command(python.executable, runtime, theirs.fileno(), theirs.fileno())
        try:
            process = subprocess.Popen(
                (program, *_OPTIONS, *command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},  # processes inside can read the first process's environment
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            message = f"{program} could not be started: {error.strerror}."
            raise SystemFault(message, hint="Run `toolyard doctor` to see what this machine offers.") from error
    return LaunchedSupervisor(
        process=process,
        channel=SocketChannel(ours),
        run_setup=guest_layout.run_setup(spec, python.scripts_folder),
        setup={**restrictions, "mounts": steps, "runtime": guest_layout.RUNTIME},
        first_process=_first_process(process),
    )


def _first_process(process: subprocess.Popen[bytes]) -> int | None:
    """Returns the supervisor's pid on the host. `unshare` does not report it, so its children are read."""
    until = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                children = file.read().split()
        except OSError:
            return None  # a kernel without that file
        if children:
            return int(children[0])
        time.sleep(_POLL_SECONDS)
    return None

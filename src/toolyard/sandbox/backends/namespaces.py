"""The sandbox without bubblewrap: the same namespaces, made by util-linux's `unshare`, and the same view of files.

`unshare` starts the warden as the first process of the new namespaces, with every capability in them. The warden
makes the mounts by itself (`toolyard_runtime.mounts`), gives up the host's root and its capabilities, and raises
the walls before it takes its first run. `unshare` is our child and waits for it; when that is killed, the kernel
kills the warden.
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
from toolyard.sandbox.process.channel import SocketChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import SandboxSpec, Tier

_OPTIONS = (
    *("--user", f"--map-user={guest_layout.USER_ID}", f"--map-group={guest_layout.USER_ID}", "--keep-caps"),
    *("--mount", "--ipc", "--uts", "--net", "--cgroup", "--pid", "--fork", "--kill-child"),
)
_START_SECONDS = 5.0
_POLL_SECONDS = 0.001


def find_unshare() -> str | None:
    return shutil.which("unshare")


_programs_that_mount: set[str] = set()
"""Programs that were seen to make mounts. One that failed is tried again: the reason may have passed."""


def can_mount(program: str) -> bool:
    """Whether this machine lets an ordinary program make such namespaces, and mounts in them."""
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
    return ProcessSandbox(Tier.NAMESPACES, functools.partial(launch_supervisor, program))


def launch_supervisor(program: str, spec: SandboxSpec) -> LaunchedSupervisor:
    python = guest_layout.own_interpreter()
    pid_max = guest_layout.pid_max(spec.limits)
    walls = Restrictions.build(mount_plan.writable_paths(spec), own_network=True).setup_fields(
        pid_max=pid_max, in_worker=False
    )
    steps = [step.as_tuple() for step in mount_plan.mount_steps(spec, python, sets_pid_max=pid_max > 0)]
    runtime = os.path.dirname(guest_layout.runtime_folder())
    ours, theirs = socket.socketpair()
    with theirs:
        line = guest_layout.supervisor_command(python.executable, runtime, theirs.fileno(), theirs.fileno())
        try:
            process = subprocess.Popen(
                (program, *_OPTIONS, *line),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},  # the first process's environment can be read inside
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
        setup={**walls, "mounts": steps, "runtime": guest_layout.RUNTIME},
        first_process=_first_process(process),
    )


def _first_process(process: subprocess.Popen[bytes]) -> int | None:
    """The warden's pid as the host sees it. `unshare` does not tell it, so its children are looked at."""
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

"""No sandbox: runs have all rights of the user who started Toolyard. Used only if the configuration names it.

The supervisor is an ordinary child process in its own session. Some properties of a sandbox remain: runs get their
own environment with little of the host's, the limits of each process apply, and leftover processes are ended. HOME,
USER, LANG and TERM are the caller's, so `~` means the same as in the caller's shell.

The Landlock tier uses `start_supervisor` too.
"""

from __future__ import annotations

import functools
import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace

from toolyard.core.errors import SystemFault
from toolyard.sandbox import guest_layout
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.process.client import SocketChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import RunSetup, SandboxSpec, Tier

_NO_RESTRICTIONS = Restrictions(landlock=b"", landlock_rules=(), seccomp=b"")


def unsandboxed_process(user_environment: Mapping[str, str] | None = None) -> ProcessSandbox:
    """Creates a runner without isolation.

    Commands get `user_environment`; missing variables come from the account.
    """
    return ProcessSandbox(Tier.NONE, functools.partial(_launch, user_environment or {}))


def _launch(user_environment: Mapping[str, str], spec: SandboxSpec) -> LaunchedSupervisor:
    changed = {**_account_variables(), **user_environment, **temp_folder_variables(tempfile.gettempdir())}
    address = f"{spec.broker}/{guest_layout.BROKER_SOCKET}"
    return start_supervisor(spec, changed, _NO_RESTRICTIONS.setup_fields(pid_max=0, in_worker=False), address=address)


def _account_variables() -> dict[str, str]:
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:  # a container may run under a uid that has no account
        return {"HOME": "/"}
    return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}


def temp_folder_variables(folder: str) -> dict[str, str]:
    """Returns the variables that point programs to a folder for temporary files."""
    return {"TMPDIR": folder, "MPLCONFIGDIR": f"{folder}/matplotlib"}


def start_supervisor(
    spec: SandboxSpec,
    changed_variables: Mapping[str, str],
    setup: Mapping[str, object],
    on_close: Callable[[], None] | None = None,
    *,
    address: str,
) -> LaunchedSupervisor:
    """Starts a supervisor among the host's own processes.

    `changed_variables` differ from those of an isolated sandbox. `address` is where code finds the broker, if any.
    """
    _refuse_remapped_mounts(spec)
    python = guest_layout.own_interpreter()
    ours, theirs = socket.socketpair()
    runtime = os.path.dirname(guest_layout.runtime_folder())
    with theirs:
        try:
            process = subprocess.Popen(
                guest_layout.supervisor_command(python.executable, runtime, theirs.fileno(), theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            message = f"{python.executable} could not be started: {error.strerror}."
            raise SystemFault(message, hint="Run `toolyard doctor` to see what this machine offers.") from error
    runs = _run_setup(spec, python.scripts_folder, changed_variables, address)
    return LaunchedSupervisor(process, SocketChannel(ours), runs, setup, process.pid, on_close)


def _run_setup(spec: SandboxSpec, scripts: str, changed_variables: Mapping[str, str], address: str) -> RunSetup:
    usual = guest_layout.run_setup(replace(spec, broker=""), scripts)
    environment = {**usual.environment, **changed_variables, **spec.environment}
    environment = guest_layout.with_broker(environment, spec, address, guest_layout.runtime_folder())
    return replace(usual, environment=environment)


def _refuse_remapped_mounts(spec: SandboxSpec) -> None:
    """Raises SystemFault for mounts at other paths: without namespaces every file keeps its own path."""
    if not os.path.isdir(spec.workspace):
        raise SystemFault(f"The workspace {spec.workspace} does not exist.", hint="Create it, or name another one.")
    for mount in spec.mounts:
        if mount.inside != mount.source:
            message = f"{mount.source} cannot be shown as {mount.inside} without namespaces."
            raise SystemFault(message, hint="Leave out the other name, or run `toolyard doctor` for a real sandbox.")

"""No sandbox: runs see and do whatever the user who started Toolyard may. Only where it was asked for by name.

The warden is an ordinary child process in a session of its own. What remains of a sandbox is that runs get their own
environment and little of the host's, that the limits of each process hold, and that what they leave behind is ended.
HOME, USER, LANG and TERM are the caller's: `~` means what it means in the caller's own shell.

`start_supervisor` is also how the Landlock tier starts its own.
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
from toolyard.sandbox.process.channel import SocketChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import RunSetup, SandboxSpec, Tier

_NO_RESTRICTIONS = Restrictions(landlock=b"", landlock_rules=(), seccomp=b"")


def unsandboxed_process(user_environment: Mapping[str, str] | None = None) -> ProcessSandbox:
    """`user_environment` are the caller's variables that commands get; what is missing comes from the account."""
    return ProcessSandbox(Tier.NONE, functools.partial(_launch, user_environment or {}))


def _launch(user_environment: Mapping[str, str], spec: SandboxSpec) -> LaunchedSupervisor:
    changed = {**_account_variables(), **user_environment, **temp_folder_variables(tempfile.gettempdir())}
    address = f"{spec.broker}/{guest_layout.BROKER_SOCKET}"
    return start_supervisor(spec, changed, _NO_RESTRICTIONS.setup_fields(pid_max=0, in_worker=False), address=address)


def _account_variables() -> dict[str, str]:
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:  # a container may run under a number that has no account
        return {"HOME": "/"}
    return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}


def temp_folder_variables(folder: str) -> dict[str, str]:
    """The variables that lead programs to a folder for temporary files."""
    return {"TMPDIR": folder, "MPLCONFIGDIR": f"{folder}/matplotlib"}


def start_supervisor(
    spec: SandboxSpec,
    changed_variables: Mapping[str, str],
    setup: Mapping[str, object],
    on_close: Callable[[], None] | None = None,
    *,
    address: str,
) -> LaunchedSupervisor:
    """A warden beside the host's own processes; `changed_variables` are the variables that differ from a real sandbox's.

    `address` is where code finds the broker, if there is one.
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
    """Files lie where they lie: what cannot be given must not seem to be."""
    if not os.path.isdir(spec.workspace):
        raise SystemFault(f"The workspace {spec.workspace} is not there.", hint="Create it, or name another one.")
    for mount in spec.mounts:
        if mount.inside != mount.source:
            message = f"{mount.source} cannot be shown as {mount.inside} without namespaces."
            raise SystemFault(message, hint="Leave out the other name, or run `toolyard doctor` for a real sandbox.")

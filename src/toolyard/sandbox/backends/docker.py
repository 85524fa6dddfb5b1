"""The container tier: one container per sandbox, on Docker or Podman, with Landlock and seccomp inside.

The client (`docker run --interactive`) is our child and carries the supervisor's frames over its pipes. When our end
closes, for any reason, the supervisor reads the end of its input and exits, the container ends with its first
process, and the engine removes it. `close()` removes it by name if the client ended in another way. Only the mounts
listed here are visible inside; the engine does not log what runs print.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from toolyard.core.errors import ConfigError, SystemFault
from toolyard.core.limits import MIB, RunLimits
from toolyard.core.paths import is_beneath
from toolyard.sandbox import guest_layout
from toolyard.sandbox.backends.docker_engine import Engine, EngineCapabilities, probe_engine
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.process.client import PipeChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import Mount, RunSetup, SandboxSpec, Tier
from toolyard.storage.temp_folders import TemporaryFolder

NO_NETWORK = "none"

_HOME_BYTES = 256 * MIB
_SHARED_MEMORY_BYTES = 256 * MIB
_OWN_PROCESSES = 4  # the supervisor, its spare worker, the proxy forwarder, and one being started
_REMOVE_SECONDS = 10.0
_SCRIPTS = "/usr/local/bin"
_SHELL = "/bin/bash"
_LABEL = "toolyard"


def docker_sandbox(
    engine: str, image: str, network: str = NO_NETWORK, client_environment: Mapping[str, str] | None = None
) -> ProcessSandbox:
    """Creates a sandbox on `engine`, a client program (see `find_engine`) that gets `client_environment`."""
    for what, text in (("image", image), ("network", network)):
        if text.startswith("-") or not text.strip():
            raise ConfigError(f'"{text}" is not a valid {what} name.')
    client = Engine.with_environment(engine, client_environment or {})
    return ProcessSandbox(Tier.DOCKER, functools.partial(_launch, client, image, network))


def _launch(engine: Engine, image: str, network: str, spec: SandboxSpec) -> LaunchedSupervisor:
    capabilities = probe_engine(engine, image)
    name = f"toolyard-{os.getpid()}-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as afterwards:
        mounts = _resolved_mounts(spec, _empty_folder(spec, afterwards))
        run_setup, restrictions = _run_setup(spec), _inner_restrictions(mounts, capabilities)
        process = engine.start(
            (
                *("run", "--rm", "--interactive", "--init=false", "--pull", "never", "--name", name),
                *("--label", _LABEL, "--workdir", spec.workspace),
                *_isolation_options(network, capabilities),
                *_limit_options(spec.limits),
                *_file_system_options(spec.limits, mounts),
                *_entrypoint_options(image),
            )
        )
        channel = _ContainerChannel(process, engine, name, afterwards.pop_all())
    return LaunchedSupervisor(
        process=process,
        channel=channel,
        run_setup=run_setup,
        setup=restrictions.setup_fields(pid_max=0, in_worker=False),
    )


class _ContainerChannel(PipeChannel):
    """The client's pipes; closing them also removes the container."""

    def __init__(
        self, process: subprocess.Popen[bytes], engine: Engine, name: str, afterwards: contextlib.ExitStack
    ) -> None:
        super().__init__(process)
        self._process, self._engine, self._name, self._afterwards = process, engine, name, afterwards

    def close(self) -> None:
        super().close()
        with self._afterwards, contextlib.suppress(SystemFault):  # without an engine there is no container to remove
            if self._process.poll() != 0:  # the client did not see the supervisor exit
                self._engine.run_to_end(("rm", "--force", "--volumes", self._name), _REMOVE_SECONDS)


def _isolation_options(network: str, offer: EngineCapabilities) -> Iterator[str]:
    yield from ("--network", network, "--ipc", "private", "--hostname", "toolyard", "--user", offer.user)
    yield from ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    # The user's files keep their SELinux labels; relabelling them would lock out other programs.
    yield from ("--security-opt", "label=disable")
    yield from ("--log-driver", "none", "--no-healthcheck")


def _limit_options(limits: RunLimits) -> Iterator[str]:
    yield from ("--memory", f"{limits.memory_bytes}b", "--memory-swap", f"{limits.memory_bytes}b")
    yield from ("--pids-limit", str(limits.processes + _OWN_PROCESSES), "--shm-size", f"{_SHARED_MEMORY_BYTES}b")


def _entrypoint_options(image: str) -> Iterator[str]:
    program, *arguments = guest_layout.supervisor_command("python3", guest_layout.RUNTIME, 0, 1)
    yield from ("--entrypoint", program, image, *arguments)


def _file_system_options(limits: RunLimits, mounts: Sequence[Mount]) -> Iterator[str]:
    """Yields the options for the file system inside."""
    # Open to all: there is a single user inside, and not every engine can set the owner of a tmpfs.
    for path, size in ((guest_layout.TEMPORARY, limits.temporary_bytes), (guest_layout.HOME, _HOME_BYTES)):
        yield from ("--tmpfs", f"{path}:exec,mode=1777,size={size}")
    for mount in mounts:
        yield from ("--mount", _bind_option(mount))


def _empty_folder(spec: SandboxSpec, afterwards: contextlib.ExitStack) -> str:
    """Returns an empty folder to cover hidden folders with; "" if none is hidden.

    A tmpfs of the engine would not do: Podman fills a new tmpfs with the content that it covers.
    """
    if not any(map(os.path.isdir, spec.hidden)):
        return ""
    return afterwards.enter_context(TemporaryFolder("empty")).path


def _resolved_mounts(spec: SandboxSpec, empty: str) -> list[Mount]:
    """Returns the mounts without those that others cover: engines mount by depth and reject duplicate targets."""
    hidden = [
        Mount(empty if os.path.isdir(path) else os.devnull, target=path)
        for path in sorted((*spec.hidden, *spec.special))
    ]
    runtime = Mount(guest_layout.runtime_folder(), target=f"{guest_layout.RUNTIME}/toolyard_runtime")
    settled: dict[str, Mount] = {}
    for mount in (Mount(spec.workspace, spec.writable), *spec.mounts, runtime, *hidden):
        if any(place.source == empty and is_beneath(mount.inside, path) for path, place in settled.items()):
            continue  # it lies in a hidden folder
        for covered in [path for path in settled if is_beneath(path, mount.inside)]:
            del settled[covered]
        settled[mount.inside] = mount
    return list(settled.values())


def _bind_option(mount: Mount) -> str:
    place = ("type=bind", f"source={mount.source}", f"target={mount.inside}")
    # Not every engine makes nested mounts read-only as well, so they are left out.
    return _csv_option(*place) if mount.writable else _csv_option(*place, "ro", "bind-nonrecursive")


def _csv_option(*fields: str) -> str:
    """Returns the fields as one comma-separated option value."""
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields)


def _run_setup(spec: SandboxSpec) -> RunSetup:
    setup = guest_layout.run_setup(spec, _SCRIPTS)
    # RLIMIT_NPROC would count the same user's processes outside; the container has its own limit.
    limits = {name: value for name, value in setup.limits.items() if name != "processes"}
    return dataclasses.replace(setup, shell=_SHELL, limits=limits)


def _inner_restrictions(mounts: Sequence[Mount], offer: EngineCapabilities) -> Restrictions:
    writable = (
        guest_layout.TEMPORARY,
        guest_layout.HOME,
        "/dev",
        *(mount.inside for mount in mounts if mount.writable),
    )
    restrictions = Restrictions.build(iter(writable), own_network=True)
    return restrictions if offer.landlock else dataclasses.replace(restrictions, landlock=b"", landlock_rules=())

"""Drives a container engine, and probes what the engine and an image support by starting a container.

The `docker` and `podman` commands are used alike. Each gets a small environment from the caller; nothing keeps
running here.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolyard.core.errors import SystemFault
from toolyard.sandbox import guest_layout

DEFAULT_IMAGE = "toolyard-sandbox"
CLIENT_VARIABLES = (
    *("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
)
"""The variables that tell a client where its engine is and how to reach it."""

_ENGINES = ("docker", "podman")
_PROBE_SECONDS = 60.0  # the first container on a new storage can take long
_MESSAGE_CHARS = 500
_NO_IMAGE = ("no such image", "unable to find image", "image not known")
_NO_ENGINE = ("cannot connect to", "connection refused", "permission denied while trying to connect", "no such host")
_NO_PROGRAM = ("executable file not found", "no such file or directory")

# Prints the Landlock level, then the mapping of users and of groups, each on a line.
_PROBE = """
import ctypes
print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
for name in ("uid_map", "gid_map"):
    with open("/proc/self/" + name) as file:
        print(*file.read().split())
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A client program and the environment it is started with."""

    program: str
    variables: tuple[tuple[str, str], ...]

    @classmethod
    def with_environment(cls, program: str, environment: Mapping[str, str]) -> Engine:
        return cls(
            program, tuple(sorted((name, environment[name]) for name in CLIENT_VARIABLES if name in environment))
        )

    @property
    def name(self) -> str:
        return os.path.basename(self.program)

    def start(self, arguments: Iterable[str]) -> subprocess.Popen[bytes]:
        """Starts a command with pipes, in its own session: a Ctrl-C in our terminal is not meant for it."""
        try:
            return subprocess.Popen(
                (self.program, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(self.variables),
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise SystemFault(
                f"{self.program} could not be started: {error.strerror}.", hint=_doctor_hint()
            ) from error

    def run_to_end(self, arguments: Iterable[str], seconds: float) -> subprocess.CompletedProcess[bytes]:
        """Runs a command to its end. Raises SystemFault if it cannot be started or does not end in time."""
        with self.start(arguments) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SystemFault(f"{self.name} did not answer within {seconds:g} s.", hint=_doctor_hint()) from None
        return subprocess.CompletedProcess(self.program, process.returncode, out, err)


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What containers of one image support on one engine."""

    landlock: bool
    """Whether Landlock works inside; some engines' own filters forbid it."""
    user: str
    """The `uid:gid` inside that corresponds to the caller, so that files belong to the caller outside."""


def find_engine() -> str | None:
    """Returns Docker's client, or else Podman's; None if neither is installed."""
    return next(filter(None, map(shutil.which, _ENGINES)), None)


def build_command(engine: str, image: str) -> str:
    """Returns the command with which a user builds the image."""
    dockerfile = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "image", "Dockerfile")
    return shlex.join((engine, "build", "--tag", image, "--file", dockerfile, guest_layout.runtime_folder()))


@functools.lru_cache(maxsize=16)
def probe_engine(engine: Engine, image: str) -> EngineCapabilities:
    """Starts a container once and caches its capabilities. Raises SystemFault with the reason if that fails."""
    container = ("run", "--rm", "--network", "none", "--pull", "never", "--entrypoint", "python3", image)
    done = engine.run_to_end((*container, "-I", "-S", "-c", _PROBE), _PROBE_SECONDS)
    if done.returncode != 0:
        raise _container_error(engine, image, done.stderr.decode("utf-8", "replace").strip())
    try:
        level, users, groups = done.stdout.decode("ascii").splitlines()
        user, group = _id_inside(users, os.geteuid()), _id_inside(groups, os.getegid())
        return EngineCapabilities(int(level) > 0, f"{user}:{group}")
    except ValueError as error:
        message = f"The image {image} cannot be used on this engine: {error}"
        raise SystemFault(message, hint="Use an engine that runs as you, or one that does not remap users.") from None


def _id_inside(mapping: str, number: int) -> int:
    """Returns the id inside for a user or group of the host. `mapping` has triples, as /proc/self/uid_map."""
    numbers = [int(field) for field in mapping.split()]
    for first, outside, count in zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True):
        if outside <= number < outside + count:
            return first + number - outside
    raise ValueError(f"its containers do not map user or group {number}, so their files could not belong to you.")


def _container_error(engine: Engine, image: str, stderr: str) -> SystemFault:
    """Returns an error for the client's message that says what to do next."""
    lowered = stderr.lower()
    if any(sign in lowered for sign in _NO_IMAGE):
        build = f"Build it: {build_command(engine.name, image)}"
        pull = f"Get it with `{shlex.join((engine.name, 'pull', image))}`, or build ours under that name. "
        hint = build if image == DEFAULT_IMAGE else pull + build
        return SystemFault(f"The sandbox image {image} does not exist.", hint=hint)
    if any(sign in lowered for sign in _NO_ENGINE):
        why = stderr.partition("\n\n")[0]  # the rest explains the client's own help
        message = f"The {engine.name} engine cannot be reached: {why[-_MESSAGE_CHARS:]}"
        return SystemFault(message, hint="Start the engine, or set `code_execution: {mode: bubblewrap}`.")
    if "python3" in lowered and any(sign in lowered for sign in _NO_PROGRAM):
        message = f"The image {image} has no python3, which the sandbox needs."
        return SystemFault(message, hint=f"Build ours: {build_command(engine.name, DEFAULT_IMAGE)}")
    return SystemFault(f"{engine.name} could not start a container: {stderr[-_MESSAGE_CHARS:]}", hint=_doctor_hint())


def _doctor_hint() -> str:
    return "Run `toolyard doctor` to see what this machine offers."

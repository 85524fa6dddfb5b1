"""A Docker engine of the tests' own, on a private socket, and the image of this project built on it.

The engine belongs to `running()`. It lives in a pid and a mount namespace of its own, so whatever ends it ends its
containers and unmounts what it mounted: leaving the context, and a SIGKILL of the process that opened it. It has no
bridge and touches no firewall. Only its layers are kept, in `.cache/docker`, because making them takes a minute; one
engine at a time may use them, which a lock sees to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).parents[2]
CACHE = REPOSITORY / ".cache" / "docker"
PROGRAMS = ("dockerd", "containerd", "runc", "docker", "debootstrap", "unshare", "setpriv")
FOLDER_PREFIX = "toolyard-docker-"
CGROUPS = pathlib.Path("/sys/fs/cgroup")

LOCK_SECONDS = 300
START_SECONDS = 60
STOP_SECONDS = 30
COMMAND_SECONDS = 60
POLL_SECONDS = 0.05
LOG_TAIL_CHARS = 2000


class EngineError(Exception):
    """The engine could not be started or refused a command."""


@dataclass(frozen=True)
class Engine:
    """A running engine, reached with the `docker` command."""

    folder: pathlib.Path
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """What DOCKER_HOST is set to."""
        return f"unix://{self.folder}/socket"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a `docker` command: the user's own engine and settings do not come into it."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "DOCKER_HOST": self.address,
            "DOCKER_CONFIG": str(self.folder),
            "DOCKER_BUILDKIT": "0",
        }

    def docker(
        self, *arguments: str, seconds: float = COMMAND_SECONDS, check: bool = True, given: bytes | None = None
    ) -> str:
        """Run one `docker` command and return what it printed; an error tells what it said."""
        done = subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            input=given,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode != 0:
            said = (done.stdout[-LOG_TAIL_CHARS:] + done.stderr[-LOG_TAIL_CHARS:]).decode(errors="replace")
            raise EngineError(f"docker {' '.join(arguments)} ended with {done.returncode}: {said}")
        return done.stdout.decode(errors="replace")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a `docker` command with pipes; whoever calls this ends it."""
        return subprocess.Popen(
            ["docker", *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def names(self) -> list[str]:
        """Every container there is, running or not."""
        return self.docker("ps", "--all", "--format", "{{.Names}}").split()

    def processes(self) -> list[int]:
        """Every process of the engine and of its containers, by its number outside."""
        return descendants(self.process.pid)

    def processes_of(self, name: str) -> list[int]:
        """Every process of one container, by its number outside; the container's first process comes first."""
        inner = self.docker("inspect", "--format", "{{.State.Pid}}", name).strip()
        first = next(pid for pid in self.processes() if number_within(pid) == inner)
        return [first, *descendants(first)]


def why_not() -> str | None:
    """Why no engine can be started here, or None."""
    if os.geteuid() != 0:
        return "a Docker engine of the tests' own needs root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: apt-get install docker.io debootstrap util-linux)"
    return None


@contextlib.contextmanager
def running() -> Iterator[Engine]:
    """An engine that is ready for commands; gone, with all that it ran, when the context is left."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        remove_folders_of_the_dead()
        folder = pathlib.Path(tempfile.gettempdir(), f"{FOLDER_PREFIX}{os.getpid()}")
        folder.mkdir(mode=0o700)
        try:
            engine = launch(folder)
            try:
                wait_until_ready(engine)
                remove_containers(engine)
                yield engine
                remove_containers(engine)
            finally:
                stop(engine)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            remove_empty_cgroups()


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Hold a lock that ends with this process."""
    give_up = time.monotonic() + LOCK_SECONDS
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise EngineError(f"another engine holds {path}; the docker tests run in one process") from None
                time.sleep(POLL_SECONDS)
        yield


def launch(folder: pathlib.Path) -> Engine:
    """Start the daemon as the first process of its own namespaces; it dies with the thread that calls this."""
    (folder / "daemon.json").write_text("{}")
    command = [
        *("setpriv", "--pdeathsig", "KILL"),
        # A slave sees what is mounted outside later; nothing it mounts is seen outside.
        *("unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
        *("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"),
        *("--host", f"unix://{folder}/socket"),
        *("--data-root", str(CACHE / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "pid"), "--config-file", str(folder / "daemon.json")),
    ]
    with (folder / "log").open("wb") as log:
        return Engine(folder, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))


def wait_until_ready(engine: Engine) -> None:
    """Wait until the daemon answers, or say what it wrote instead."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and engine.process.poll() is None:
        if (engine.folder / "socket").exists() and engine.docker("version", "--format", "ok", check=False).strip():
            return
        time.sleep(POLL_SECONDS)
    said = (engine.folder / "log").read_text(errors="replace")[-LOG_TAIL_CHARS:]
    raise EngineError(f"dockerd was not ready within {START_SECONDS} s; it wrote: {said}")


def remove_containers(engine: Engine) -> None:
    """Remove every container, also those of an engine that was killed before."""
    names = engine.names()
    if names:
        engine.docker("rm", "--force", *names)


def stop(engine: Engine) -> None:
    """Ask the daemon to end, so that its records are whole; kill the namespace when it does not."""
    for pid in children(engine.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        engine.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        engine.process.kill()
        engine.process.wait(STOP_SECONDS)


def remove_folders_of_the_dead() -> None:
    """Remove what engines left whose owner was killed; a folder's name ends with the owner's number."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX)
        if owner.isdigit() and not is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def remove_empty_cgroups() -> None:
    """Remove the groups that held the containers; one that another engine uses is not empty and stays."""
    for folder in (CGROUPS / "docker", *CGROUPS.glob("*/docker")):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def children(pid: int) -> list[int]:
    """The children of a process, none when it has ended."""
    try:
        return [
            int(child)
            for thread in os.listdir(f"/proc/{pid}/task")
            for child in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        ]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def number_within(pid: int) -> str:
    """The number a process has in the engine's namespace, empty when it has ended."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return (line.split()[2:] or [""])[0]
    return ""


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that ended and was not waited for does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"

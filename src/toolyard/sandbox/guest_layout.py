"""The environment inside every sandbox: variables, Python, user, and the Landlock and seccomp structures."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import toolyard_runtime
from toolyard.core.errors import SystemFault
from toolyard.core.limits import RunLimits
from toolyard.core.paths import HOME_IN_SANDBOX, is_beneath
from toolyard.linux import landlock, seccomp
from toolyard.linux.seccomp import AllowedSockets
from toolyard.sandbox.spec import RunSetup, SandboxSpec

HOME = HOME_IN_SANDBOX
TEMPORARY = "/tmp"  # noqa: S108 - the sandbox's own
RUNTIME = "/run/toolyard"
"""The folder of the runtime package inside."""
NETWORK = f"{RUNTIME}/network"
"""The folder with the socket of the network proxy, if hosts are allowed."""
BROKER = f"{RUNTIME}/broker"
"""The folder with the broker's sockets, if the spec has one."""
BROKER_SOCKET, BROKER_FD_SOCKET = "socket", "hand"
"""The socket that code connects to, and the socket that passes connections to code that may not connect."""
BROKER_DESCRIPTOR = 60
"""The descriptor through which such code reaches the latter; shells and programs do not use this number."""
USER_ID = 1000
PROXY_PORT = 3128

_SHELLS = ("/bin/bash", "/usr/bin/bash")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_PID_MAX_PER_NAMESPACE = (6, 14)
_RESERVED_PIDS = 300  # after the pid counter wraps around, the kernel starts again from here

ETC_FILES = {
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{USER_ID}:{USER_ID}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "/etc/group": f"root:x:0:\nagent:x:{USER_ID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost toolyard\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    # A folder that only looks like a bare repository is ignored: git would obey the configuration in it.
    "/etc/gitconfig": "[user]\n\tname = agent\n\temail = agent@localhost\n[init]\n\tdefaultBranch = main\n"
    "[safe]\n\tbareRepository = explicit\n",
}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that code runs under, and the host folders that it needs."""

    executable: str
    folders: tuple[str, ...]

    @property
    def scripts_folder(self) -> str:
        return os.path.dirname(self.executable)


def own_interpreter() -> Interpreter:
    """Returns the environment that Toolyard itself is installed in, with its packages."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    folders = {path for prefix in prefixes for path in (prefix, os.path.realpath(prefix))}
    outside_usr = sorted(path for path in folders if not is_beneath(path, "/usr"))
    return Interpreter(sys.executable, tuple(outside_usr))


@cache
def runtime_folder() -> str:
    """Compiles the runtime package and returns its folder on the host.

    Inside the sandbox it is read-only, so Python could not cache its bytecode there.
    """
    folder = os.path.dirname(os.path.abspath(toolyard_runtime.__file__))
    for place in (folder, os.path.join(folder, "startup")):
        for name in os.listdir(place):
            if name.endswith(".py"):
                _compile(os.path.join(place, name))
    return folder


def runtime_folders() -> tuple[str, ...]:
    """Returns the runtime package's folder and its alias's, which must both be readable where Python finds them."""
    folder = runtime_folder()
    return folder, os.path.join(os.path.dirname(folder), "_massgen_runtime")


def _compile(source: str) -> None:
    with contextlib.suppress(OSError):  # not writable: it works without bytecode, but starts slower
        compiled = importlib.util.cache_from_source(source)
        if not os.path.exists(compiled) or os.stat(compiled).st_mtime < os.stat(source).st_mtime:
            import py_compile

            py_compile.compile(source, doraise=True)


def supervisor_command(
    python: str, runtime: str, read_fd: int, write_fd: int, *, module: str = "supervisor"
) -> tuple[str, ...]:
    """Returns the command that starts the supervisor. `bootstrap` starts faster if it need not restrict itself."""
    code = f"import sys; sys.path.insert(0, {runtime!r}); from toolyard_runtime.{module} import main; main()"
    return (python, "-I", "-S", "-c", code, str(read_fd), str(write_fd))


def find_shell() -> str:
    """Returns the path of bash. Raises SystemFault if there is none."""
    for path in _SHELLS:
        if os.access(path, os.X_OK):
            return path
    raise SystemFault("Commands need bash, and none was found.", hint="Install bash.")


def environment_variables(scripts: str, user_variables: Mapping[str, str], *, proxied: bool) -> dict[str, str]:
    """Returns the whole environment of a run: a few defaults, and the variables that the user named."""
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    return {
        "PATH": f"{scripts}:{_SYSTEM_PATH}",
        "HOME": HOME,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "TMPDIR": TEMPORARY,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONPATH": RUNTIME,  # so that a script started by a command also finds the matplotlib backend
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "MPLBACKEND": "module://toolyard_runtime.matplotlib_backend",
        "MPLCONFIGDIR": f"{TEMPORARY}/matplotlib",
        **(dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy) if proxied else {}),
        **user_variables,
    }


def with_broker(
    environment: Mapping[str, str],
    spec: SandboxSpec,
    address: str = f"{BROKER}/{BROKER_SOCKET}",
    runtime: str = f"{RUNTIME}/toolyard_runtime",
) -> dict[str, str]:
    """Adds the variables that lead code to its tools, if the spec has a broker."""
    if not spec.broker:
        return dict(environment)
    return {
        **environment,
        "TOOLYARD_BROKER": address,
        "TOOLYARD_PACKAGES": spec.packages or spec.workspace,
        # So that a script started by a command can import tools from any folder.
        "PYTHONPATH": f"{environment['PYTHONPATH']}:{runtime}/startup",
    }


def run_setup(spec: SandboxSpec, scripts: str) -> RunSetup:
    """Returns the settings for every run of a sandbox on this machine."""
    environment = with_broker(
        environment_variables(scripts, spec.environment, proxied=bool(spec.allowed_hosts)), spec
    )
    return RunSetup(spec.workspace, find_shell(), environment, resource_limits(spec.limits), spec.limits.output_bytes)


def resource_limits(limits: RunLimits) -> dict[str, int]:
    """Returns the limits that the kernel enforces for each process, by the names that the worker knows."""
    return {
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_bytes,
        "open_files": limits.open_files,
        "file_bytes": limits.file_bytes,
        "core_bytes": 0,
        # Counts the user's processes, or only those inside the user namespace; it does not bind root.
        "processes": limits.processes,
    }


def pid_max(limits: RunLimits) -> int:
    """Returns the value for the namespace's own pid_max; 0 if the kernel has a single one for all namespaces."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if found is None or (int(found[1]), int(found[2])) < _PID_MAX_PER_NAMESPACE:
        return 0
    return limits.processes + _RESERVED_PIDS


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Landlock and seccomp for one sandbox, as far as this kernel supports them."""

    landlock: bytes
    landlock_rules: tuple[tuple[str, int, int], ...]
    """A path, the access beneath it if it is a folder inside, and the access if it is a file."""
    seccomp: bytes

    @classmethod
    def build(cls, writable: Iterator[str], *, readable: tuple[str, ...] = ("/",), own_network: bool) -> Restrictions:
        """Allows reading and executing below `readable`, and writing below `writable` as well.

        A sandbox without its own network gets no sockets at all.
        """
        level = landlock.abi_version()
        reading = (landlock.READ | landlock.EXECUTE, landlock.READ_FILE | landlock.EXECUTE)
        changing = (landlock.all_access(level, folder=True), landlock.all_access(level, folder=False))
        rules = [(path, *reading) for path in readable]
        rules += [(path, *changing) for path in writable]
        sockets = AllowedSockets.ORDINARY if own_network else AllowedSockets.NONE
        return cls(
            landlock.ruleset_attributes(level, with_tcp_and_scopes=not own_network) if level else b"",
            tuple(rules) if level else (),
            seccomp.build_program(sockets=sockets) if seccomp.is_available() else b"",
        )

    def setup_fields(self, *, pid_max: int, in_worker: bool) -> dict[str, object]:
        """Returns the fields for the supervisor's first frame."""
        return {
            "pid_max": pid_max,
            "landlock": self.landlock,
            "landlock_rules": list(self.landlock_rules),
            "seccomp": self.seccomp,
            "walls_in_worker": in_worker,
        }

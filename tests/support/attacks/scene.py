"""Where attacks by commands and code happen: a workspace, and around it everything that they must not reach.

A Scene owns folders beneath the one it is given, two files in the machine's shared places (/tmp, /dev/shm), listening
sockets and a process, the victim. `close()` gives all of it back. Nothing else of the machine is a target.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import toolyard_runtime
from tests.support.attacks.mcp_calls import HIDDEN_NAME, MARKER, fingerprint
from tests.support.attacks.runs import PERMITTED, Fact
from tests.support.sandbox_suite.kit import GONE_SECONDS, MARK, within
from toolyard.core.closeable import Closeable

VICTIM_FD: Final = 9
_SHARED: Final = ("/tmp", "/dev/shm")
_FOLDERS: Final = ("ws", "outside", "home", "context", "run", "state")
_FILES: Final = {
    "ws/a.txt": "alpha\n",
    "ws/sub/b.txt": "beta\n",
    "ws/hidden/key.pem": f"{MARKER}\n",
    "ws/frozen.txt": "frozen\n",
    "ws/.git/config": "[core]\n\trepositoryformatversion = 0\n",
    "ws/.git/HEAD": "ref: refs/heads/main\n",
    "ws/.git/hooks/pre-commit": "#!/bin/sh\n",
    "ws/.git/objects/keep": "",
    "ws/.git/refs/keep": "",
    "ws/toolyard.yaml": "permissions: {mode: strict}\n",
    "outside/secret.txt": f"{MARKER}\n",
    "outside/sub/secret.txt": f"{MARKER}\n",
    f"outside/{HIDDEN_NAME}.txt": f"{MARKER}\n",
    "home/.bashrc": f"# {MARKER}\n",
    "home/.ssh/id_rsa": f"{MARKER}\n",
    "context/notes.txt": "notes\n",
    "state/keep.txt": f"{MARKER}\n",
}
_LINKS: Final = {
    "ws/planted": "../outside/secret.txt",
    "ws/planted-folder": "../outside",
    "ws/hidden-link": "hidden",
}
# What may not change: outside, and inside where the policy says so.
_GUARDED: Final = ("outside", "home", "context", "run", "state/keep.txt")
_GUARDED_INSIDE: Final = tuple(
    f"ws/{name}" for name in (".git/hooks", ".git/config", "toolyard.yaml", "frozen.txt", "hidden")
)
_VICTIM: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # whoever may trace at all, may trace this
os.dup2(os.open("secret.txt", os.O_RDONLY), 9)
kept = ctypes.create_string_buffer(sys.argv[1].encode())
print(ctypes.addressof(kept), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class _Victim:
    process: subprocess.Popen[str]
    address: int

    @property
    def is_well(self) -> bool:
        try:
            with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "TtZX"
        except OSError:
            return False

    def holds(self, path: str) -> bool:
        return os.path.samestat(os.stat(path), os.stat(f"/proc/{self.process.pid}/fd/{VICTIM_FD}"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Scene(Closeable):
    def __init__(self, base: str) -> None:
        self.base = os.path.realpath(base)
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.workspace, self.outside = f"{self.base}/ws", f"{self.base}/outside"
        self.state, self.home = f"{self.base}/state", f"{self.base}/home"
        self._secret = f"{self.outside}/secret.txt"
        self._name = f"toolyard-escape-{uuid.uuid4().hex}"
        for name in _FOLDERS:
            os.makedirs(f"{self.base}/{name}", mode=0o755, exist_ok=True)
        self._streams: dict[str, socket.socket] = {}
        self._datagrams: dict[str, socket.socket] = {}
        self._listen()
        self._lay()
        self._victim = self._started_victim()
        self.leaked = os.open(self._secret, os.O_RDONLY)
        """A descriptor that whoever starts a process carelessly hands on."""
        os.set_inheritable(self.leaked, True)
        self._before = self._guarded()

    def places(self) -> dict[str, str]:
        """What attacks may name."""
        ports = {name: str(end.getsockname()[1]) for name, end in self._ends() if "unix" not in name}
        return {
            "base": self.base,
            "ws": self.workspace,
            "outside": self.outside,
            "secret": self._secret,
            "home": self.home,
            "context": f"{self.base}/context",
            "run": f"{self.base}/run",
            "state": self.state,
            "name": self._name,
            "mark": self.mark,
            "mark_name": MARK,
            "victim": str(self._victim.process.pid),
            # A pattern that does not match itself: else `pkill` may end its own shell before it comes to the victim.
            "victim_pattern": f"[{self._name[0]}]{self._name[1:]}",
            "address": str(self._victim.address),
            "server": str(os.getpid()),
            "packages": os.path.dirname(os.__file__),
            "runtime": os.path.dirname(os.path.abspath(toolyard_runtime.__file__)),
            "marker_length": str(len(MARKER)),
            **ports,
        }

    def facts(self, answer: str, patience: float = GONE_SECONDS) -> set[Fact]:
        """What happened since the scene was last as it should be; processes have `patience` to go away."""
        found = {
            Fact.SHOWN: MARKER in answer or HIDDEN_NAME in answer,
            Fact.PERMITTED: PERMITTED in answer,
            Fact.CHANGED: self._guarded() != self._before,
            Fact.REACHED: self._was_reached(),
            Fact.HURT: not self._victim.is_well,
            Fact.SPECIAL: any(_is_special(path) for path in _walk(self.workspace)),
            Fact.LEFT: not within(patience, lambda: not marked(self.mark)),
        }
        return {fact for fact, holds in found.items() if holds}

    def tidy(self) -> None:
        """Take away what an attack made in the workspace, where it may."""
        expected = {path.split("/")[1] for path in (*_FILES, *_LINKS) if path.startswith("ws/")}
        for entry in list(os.scandir(self.workspace)):
            if entry.name not in expected:
                _remove(entry.path)

    def restore(self) -> None:
        """Put everything back after an attack that succeeded, by the same names."""
        for pid in marked(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in _FOLDERS[:4]:
            for entry in list(os.scandir(f"{self.base}/{name}")):
                if entry.path != self._secret:  # the victim has it open
                    _remove(entry.path)
        self._lay()
        if not (self._victim.is_well and self._victim.holds(self._secret)):
            self._victim.end()
            self._victim = self._started_victim()
        self._was_reached()
        self._before = self._guarded()

    def close(self) -> None:
        os.close(self.leaked)
        self._victim.end()
        for _, end in self._ends():
            end.close()
        for folder in _SHARED:
            for path in (f"{folder}/{self._name}", f"{folder}/{self._name}-new"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _lay(self) -> None:
        for path, text in _FILES.items():
            full = f"{self.base}/{path}"
            os.makedirs(os.path.dirname(full), mode=0o755, exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(full, 0o644)
        for path, target in _LINKS.items():
            os.symlink(target, f"{self.base}/{path}")
        for folder in _SHARED:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/{self._name}-new")
            with open(f"{folder}/{self._name}", "w", encoding="utf-8") as file:
                file.write(f"{MARKER}\n")

    def _guarded(self) -> tuple[str, ...]:
        paths = [f"{self.base}/{path}" for path in (*_GUARDED, *_GUARDED_INSIDE)]
        paths += [f"{folder}/{self._name}{ending}" for folder in _SHARED for ending in ("", "-new")]
        return tuple(_digest(path) for path in paths)

    def _started_victim(self) -> _Victim:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM, MARKER, self._name],
            cwd=self.outside,
            env={"VICTIM_SECRET": MARKER},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return _Victim(process, int(process.stdout.readline()))

    def _listen(self) -> None:
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        self._streams["tcp"] = _bound(socket.AF_INET, stream, ("127.0.0.1", 0))
        self._datagrams["udp"] = _bound(socket.AF_INET, datagram, ("127.0.0.1", 0))
        if socket.has_ipv6:
            with contextlib.suppress(OSError):  # a machine without
                self._streams["tcp6"] = _bound(socket.AF_INET6, stream, ("::1", 0))
        self._streams["unix_abstract"] = _bound(socket.AF_UNIX, stream, f"\0{self._name}")
        self._datagrams["unix_abstract_datagram"] = _bound(socket.AF_UNIX, datagram, f"\0{self._name}-datagram")
        # By a short name: a socket's address holds a hundred bytes, and temporary folders have long ones.
        folder = os.open(f"{self.base}/run", os.O_PATH | os.O_DIRECTORY)
        try:
            self._streams["unix"] = _bound(socket.AF_UNIX, stream, f"/proc/self/fd/{folder}/stream")
            self._datagrams["unix_datagram"] = _bound(socket.AF_UNIX, datagram, f"/proc/self/fd/{folder}/datagram")
        finally:
            os.close(folder)
        for listener in self._streams.values():
            listener.listen()

    def _ends(self) -> Iterator[tuple[str, socket.socket]]:
        yield from self._streams.items()
        yield from self._datagrams.items()

    def _was_reached(self) -> bool:
        reached = False
        for listener in self._streams.values():
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                reached = True
        for end in self._datagrams.values():
            with contextlib.suppress(BlockingIOError):
                end.recv(1)
                reached = True
        return reached


def marked(mark: str) -> list[int]:
    """The processes that were started with this mark in their environment."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(entry))
    return found


def _bound(family: int, kind: int, address: object) -> socket.socket:
    end = socket.socket(family, kind)
    end.bind(address)  # type: ignore[arg-type]
    end.setblocking(False)
    return end


def _digest(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return "missing"
    if stat.S_ISDIR(status.st_mode):
        return fingerprint(path)
    with open(path, "rb") as file:
        content = hashlib.blake2b(file.read()).hexdigest()
    return f"{status.st_mode:o} {status.st_uid} {status.st_nlink} {status.st_mtime_ns} {content}"


def _walk(top: str) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        yield from (f"{folder}/{name}" for name in (*folders, *names))


def _is_special(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or bool(mode & (stat.S_ISUID | stat.S_ISGID))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)  # an ordinary user cannot enter a copy of what was hidden
        shutil.rmtree(path)
    else:
        os.unlink(path)

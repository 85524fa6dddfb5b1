"""What `toolyard doctor` says about the programs that agents run in: is each one here, and would a run attach?

A CLI is asked for its version, all of them at once and each in a process group that ends with the check. Nothing is
sent anywhere: a key or a login is only seen to be there.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from toolyard.cli.doctor.check import Check, Status
from toolyard.config.clients import settings_file
from toolyard.config.clients.clients import CLIENTS, Client, Scope, is_ours
from toolyard.config.clients.entry_editor import Document
from toolyard.config.settings import Settings, environment
from toolyard.core.errors import ConfigError
from toolyard.core.limits import KIB
from toolyard.drivers.credentials import lack_of_access
from toolyard.drivers.registry import DRIVERS

if TYPE_CHECKING:
    from toolyard.drivers.driver import Driver

_ANSWER_SECONDS: Final = 20
"""A CLI that is written in JavaScript takes a second to say its version; five at once on two processors ten."""
_MOST_SAID: Final = 64 * KIB
_MOST_PATIENCE: Final = 4
"""Times as long on a machine that is busy with something else."""
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_EDITORS: Final = {"cursor": "cursor", "vscode": "code"}
_QUIET: Final = {"GEMINI_CLI_NO_RELAUNCH": "true", "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}
_SCOPES: Final[tuple[Scope, ...]] = ("user", "project")


@dataclass(frozen=True, slots=True)
class Clients:
    """The versions of the CLIs, being asked for."""

    settings: Settings
    versions: Mapping[str, Future[_Said]]
    programs: Mapping[str, str]

    def checks(self, folder: str) -> Iterator[Check]:
        """One for each client. `folder` is the workspace, whose project may have settings of its own."""
        listening = _loopback()
        for client in CLIENTS.values():
            driver = DRIVERS.get(client.name)
            there = _Attached.of(client, self.settings, folder)
            if driver is not None:
                yield self._cli(driver, there, listening)
            else:
                yield _editor(client, there)

    def _cli(self, driver: Driver, there: _Attached, listening: str) -> Check:
        what = f"client: {driver.name}"
        path = self.programs.get(driver.name)
        if path is None:
            return Check(Status.INFO, what, f"not installed{there.aside}", f"`npm install -g {driver.package}`")
        version, waited = self.versions[driver.name].result()
        if not version:
            said = f"did not say its version within {waited:.0f} s" if waited else "does not say its version"
            found = f"{path} {said}; whether a run would attach is not known"
            again = "; a busy machine takes longer" if waited else ""
            fix = f"Try `{driver.program} --version`{again}. Where it fails: `npm install -g {driver.package}`"
            return Check(Status.WARN, what, found + there.aside, fix)
        found = f"{version} ({path})"
        missing, fix = _missing(driver, version, self.settings, listening)
        if missing:
            return Check(Status.WARN, what, f"{found}; a run would not attach: {missing}{there.aside}", fix)
        status = Status.WARN if there.trouble else Status.OK
        return Check(status, what, f"{found}; a run would attach{there.aside}", there.fix)


class _Said(NamedTuple):
    version: str = ""
    waited: float = 0.0
    """Seconds, where it was still at it then."""


@contextlib.contextmanager
def asking(settings: Settings) -> Generator[Clients]:
    """Ask every CLI that is installed for its version while other checks run."""
    found = {name: shutil.which(driver.program) for name, driver in DRIVERS.items()}
    programs = {name: path for name, path in found.items() if path is not None}
    with ThreadPoolExecutor(max_workers=len(DRIVERS)) as pool:
        yield Clients(settings, {name: pool.submit(_version, path) for name, path in programs.items()}, programs)


@dataclass(frozen=True, slots=True)
class _Attached:
    """Where the client's own settings name our servers, and what is wrong with that."""

    entries: tuple[str, ...] = ()
    """Each a name and its file."""
    trouble: str = ""
    fix: str = ""

    @property
    def aside(self) -> str:
        """For the end of a sentence."""
        if self.trouble:
            return f"; {self.trouble}"
        return f"; {self.told}" if self.entries else "; not in its own settings"

    @property
    def told(self) -> str:
        return f"in its own settings: {', '.join(self.entries)}"

    @classmethod
    def of(cls, client: Client, settings: Settings, folder: str) -> _Attached:
        entries: list[str] = []
        for scope in _SCOPES:
            for path in client.paths(scope, settings, folder):
                try:
                    servers = Document(path, client.section, settings_file.content_of(path).text).servers()
                except ConfigError as error:
                    return cls((), error.message, error.hint)
                for name, entry in servers.items():
                    if not is_ours(entry):
                        continue
                    program = _program(entry)
                    if shutil.which(program) is None:
                        which = " --assistant" if _is_assistant(entry) else ""
                        again = f"`toolyard install {client.name}{which} --scope {scope} --name {name}`"
                        return cls((), f'"{name}" in {path} starts {program}, which is not there', again)
                    entries.append(f"{name} ({path})")
        return cls(tuple(entries), "", "" if entries else f"`toolyard install {client.name}` adds it there.")


def _editor(client: Client, there: _Attached) -> Check:
    what = f"client: {client.name}"
    if there.trouble:
        return Check(Status.WARN, what, there.trouble, there.fix)
    if there.entries:
        return Check(Status.OK, what, there.told)
    path = shutil.which(_EDITORS[client.name])
    if path is None:
        return Check(Status.INFO, what, f"no `{_EDITORS[client.name]}` on the PATH{there.aside}", there.fix)
    return Check(Status.INFO, what, f"{path}{there.aside}", there.fix)


def _missing(driver: Driver, version: str, settings: Settings, listening: str) -> tuple[str, str]:
    """What keeps a run from attaching, and what to do; empty for nothing."""
    if _numbers(version) < _numbers(driver.minimum):
        return f"it is older than {driver.minimum}", f"`npm install -g {driver.package}`"
    if listening:
        return f"our server cannot listen on the loopback ({listening})", "Bring the interface `lo` up."
    return lack_of_access(driver, environment(), settings.home) or ("", "")


def _loopback() -> str:
    """Why no server could listen there; empty where one can."""
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _patience() -> float:
    """Seconds that a program is given: more of them the more others have to do here."""
    try:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # the system does not say
        load = 1.0
    return _ANSWER_SECONDS * min(max(load, 1.0), _MOST_PATIENCE)


def _version(path: str) -> _Said:
    """What a program says its version is."""
    seconds = _patience()
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(
                (path, "--version"),
                env={**environment(), **_QUIET},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return _Said()
        try:
            has_ended = _ends_within(process.pid, seconds)
        finally:
            # Some start another program. Before the first one is reaped, the number is surely this group's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not has_ended:
            return _Said(waited=seconds)
        printed.seek(0)
        said = printed.read(_MOST_SAID)
    found = _VERSION.search(said.decode(errors="replace"))
    return _Said(found[0] if found and process.returncode == 0 else "")


def _ends_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a child, which is not reaped."""
    handle = os.pidfd_open(pid)
    try:
        looking = select.poll()
        looking.register(handle, select.POLLIN)
        return bool(looking.poll(seconds * 1_000))
    finally:
        os.close(handle)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _program(entry: Any) -> str:
    return _words(entry)[0]


def _is_assistant(entry: Any) -> bool:
    """Of one that is ours: whether it starts `toolyard assistant`."""
    return "assistant" in _words(entry)[1:4]


def _words(entry: Any) -> list[str]:
    keys = cast("Mapping[str, Any]", entry)
    command, more = keys["command"], keys.get("args", [])
    words = [*(cast("list[Any]", command) if isinstance(command, list) else [command]), *more]
    return [str(word) for word in words]

"""Checks the programs that agents run in: whether each is installed, and whether a run would attach.

Every CLI is asked for its version in parallel, each in a process group that ends with the check. Nothing is sent over
the network: the checks only look for a key or a login.
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
from toolyard.config.clients.clients import CLIENTS, Client, Scope, is_toolyard_entry
from toolyard.config.clients.entry_editor import ClientDocument
from toolyard.config.settings import Settings, environment
from toolyard.core.errors import ConfigError
from toolyard.core.limits import KIB
from toolyard.drivers.credentials import missing_access
from toolyard.drivers.registry import DRIVERS

if TYPE_CHECKING:
    from toolyard.drivers.driver import Driver

_ANSWER_SECONDS: Final = 20
"""A CLI written in JavaScript takes a second to print its version; five at once on two processors take ten."""
_MAX_OUTPUT_BYTES: Final = 64 * KIB
_MAX_TIMEOUT_FACTOR: Final = 4
"""Upper limit for extending the timeout on a busy machine."""
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_EDITORS: Final = {"cursor": "cursor", "vscode": "code"}
_QUIET_ENV: Final = {"GEMINI_CLI_NO_RELAUNCH": "true", "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}
_SCOPES: Final[tuple[Scope, ...]] = ("user", "project")


@dataclass(frozen=True, slots=True)
class ClientVersions:
    """The versions of the CLIs, which are being queried."""

    settings: Settings
    versions: Mapping[str, Future[_VersionAnswer]]
    programs: Mapping[str, str]

    def checks(self, folder: str) -> Iterator[Check]:
        """Yields one check per client. `folder` is the workspace, whose project may have its own client settings."""
        listening = _loopback_error()
        for client in CLIENTS.values():
            driver = DRIVERS.get(client.name)
            there = _ClientEntries.of(client, self.settings, folder)
            if driver is not None:
                yield self._cli_check(driver, there, listening)
            else:
                yield _editor_check(client, there)

    def _cli_check(self, driver: Driver, there: _ClientEntries, loopback_error: str) -> Check:
        what = f"client: {driver.name}"
        path = self.programs.get(driver.name)
        if path is None:
            return Check(Status.INFO, what, f"not installed{there.suffix}", f"`npm install -g {driver.package}`")
        version, waited = self.versions[driver.name].result()
        if not version:
            failure = f"did not print its version within {waited:.0f} s" if waited else "does not print its version"
            found = f"{path} {failure}; it is unknown whether a run would attach"
            again = "; a busy machine takes longer" if waited else ""
            fix = f"Try `{driver.program} --version`{again}. If it fails: `npm install -g {driver.package}`"
            return Check(Status.WARN, what, found + there.suffix, fix)
        found = f"{version} ({path})"
        missing, fix = _missing_requirement(driver, version, self.settings, loopback_error)
        if missing:
            return Check(Status.WARN, what, f"{found}; a run would not attach: {missing}{there.suffix}", fix)
        status = Status.WARN if there.problem else Status.OK
        return Check(status, what, f"{found}; a run would attach{there.suffix}", there.fix)


class _VersionAnswer(NamedTuple):
    version: str = ""
    waited: float = 0.0
    """Seconds waited, if the program had not ended by then."""


@contextlib.contextmanager
def ask_versions(settings: Settings) -> Generator[ClientVersions]:
    """Asks every installed CLI for its version, while other checks run."""
    found = {name: shutil.which(driver.program) for name, driver in DRIVERS.items()}
    programs = {name: path for name, path in found.items() if path is not None}
    with ThreadPoolExecutor(max_workers=len(DRIVERS)) as pool:
        yield ClientVersions(
            settings, {name: pool.submit(_ask_version, path) for name, path in programs.items()}, programs
        )


@dataclass(frozen=True, slots=True)
class _ClientEntries:
    """The entries of our servers in a client's own settings, and what is wrong with them."""

    entries: tuple[str, ...] = ()
    """Each a name and its file."""
    problem: str = ""
    fix: str = ""

    @property
    def suffix(self) -> str:
        """The findings as the end of a sentence."""
        if self.problem:
            return f"; {self.problem}"
        return f"; {self.description}" if self.entries else "; not in its own settings"

    @property
    def description(self) -> str:
        return f"in its own settings: {', '.join(self.entries)}"

    @classmethod
    def of(cls, client: Client, settings: Settings, folder: str) -> _ClientEntries:
        entries: list[str] = []
        for scope in _SCOPES:
            for path in client.paths(scope, settings, folder):
                try:
                    servers = ClientDocument(path, client.section, settings_file.read_content(path).text).servers()
                except ConfigError as error:
                    return cls((), error.message, error.hint)
                for name, entry in servers.items():
                    if not is_toolyard_entry(entry):
                        continue
                    program = _entry_program(entry)
                    if shutil.which(program) is None:
                        which = " --assistant" if _is_assistant(entry) else ""
                        again = f"`toolyard install {client.name}{which} --scope {scope} --name {name}`"
                        return cls((), f'"{name}" in {path} starts {program}, which does not exist', again)
                    entries.append(f"{name} ({path})")
        return cls(tuple(entries), "", "" if entries else f"`toolyard install {client.name}` adds it there.")


def _editor_check(client: Client, there: _ClientEntries) -> Check:
    what = f"client: {client.name}"
    if there.problem:
        return Check(Status.WARN, what, there.problem, there.fix)
    if there.entries:
        return Check(Status.OK, what, there.description)
    path = shutil.which(_EDITORS[client.name])
    if path is None:
        return Check(Status.INFO, what, f"no `{_EDITORS[client.name]}` on the PATH{there.suffix}", there.fix)
    return Check(Status.INFO, what, f"{path}{there.suffix}", there.fix)


def _missing_requirement(driver: Driver, version: str, settings: Settings, loopback_error: str) -> tuple[str, str]:
    """Returns what prevents a run from attaching and how to fix it; empty strings if nothing does."""
    if _version_numbers(version) < _version_numbers(driver.minimum_version):
        return f"it is older than {driver.minimum_version}", f"`npm install -g {driver.package}`"
    if loopback_error:
        return f"our server cannot listen on the loopback ({loopback_error})", "Bring the interface `lo` up."
    return missing_access(driver, environment(), settings.home) or ("", "")


def _loopback_error() -> str:
    """Returns why no server can listen on the loopback; empty if one can."""
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _answer_timeout() -> float:
    """Returns the timeout for a program in seconds, longer on a busy machine."""
    try:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # not available
        load = 1.0
    return _ANSWER_SECONDS * min(max(load, 1.0), _MAX_TIMEOUT_FACTOR)


def _ask_version(path: str) -> _VersionAnswer:
    """Runs `--version` of a program."""
    seconds = _answer_timeout()
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(
                (path, "--version"),
                env={**environment(), **_QUIET_ENV},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return _VersionAnswer()
        try:
            has_ended = _ends_within(process.pid, seconds)
        finally:
            # Some CLIs start another program. Until the first is reaped, its pid still identifies this group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not has_ended:
            return _VersionAnswer(waited=seconds)
        printed.seek(0)
        output = printed.read(_MAX_OUTPUT_BYTES)
    found = _VERSION.search(output.decode(errors="replace"))
    return _VersionAnswer(found[0] if found and process.returncode == 0 else "")


def _ends_within(pid: int, seconds: float) -> bool:
    """Waits for a child to end, without reaping it."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1_000))
    finally:
        os.close(handle)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _entry_program(entry: Any) -> str:
    return _command_words(entry)[0]


def _is_assistant(entry: Any) -> bool:
    """Whether one of our entries starts `toolyard assistant`."""
    return "assistant" in _command_words(entry)[1:4]


def _command_words(entry: Any) -> list[str]:
    keys = cast("Mapping[str, Any]", entry)
    command, more = keys["command"], keys.get("args", [])
    words = [*(cast("list[Any]", command) if isinstance(command, list) else [command]), *more]
    return [str(word) for word in words]

"""Starts a helper program (ripgrep) that can read nothing but the folders that it is given.

Landlock applies to a thread and its children. Each start creates a thread, which restricts itself and then starts the
program; the rest of this process is not restricted. Where the kernel has no Landlock, `best_confinement()` returns
HANDLES: the caller may then give the program only open descriptors, or use it for names that are verified afterwards.
The choice is made once, by actually restricting a thread. A chosen confinement that fails raises; a program is never
started with less confinement than requested.

The caller owns the process that `start_program` returns: it must kill it or wait for it. If this process is killed
before it can, the kernel kills the program too: see `die_with_parent.py`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TypeVar

from toolyard.core.errors import SystemFault
from toolyard.files.die_with_parent import DieWithParentGroup, die_with_parent_group
from toolyard.linux import landlock
from toolyard.linux.landlock import LandlockRule

_CLEAN_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_ELF_HEADER_64 = struct.Struct("<16sHHIQQQIHHHHHH")
_PT_INTERP = 3

T = TypeVar("T")


class Confinement(StrEnum):
    """How a helper program is confined."""

    LANDLOCK = "landlock"
    """The kernel denies the program everything outside its folders."""
    HANDLES = "handles"
    """The program gets open descriptors; names that it lists are verified by opening them beneath the root."""


@dataclass(frozen=True, slots=True)
class ConfinedProgram:
    """What to start: the arguments, the working folder, and what the program may read.

    The first argument is the program's absolute path. `folder` is the handle of its working folder; `readable` are
    handles of folders that it may read; `passed` are descriptors that it inherits under the same numbers.
    """

    arguments: tuple[str, ...]
    folder: int
    readable: tuple[int, ...] = ()
    passed: tuple[int, ...] = ()


@cache
def best_confinement() -> Confinement:
    """Returns the best confinement that works on this machine, found by trying it."""
    if landlock.abi_version() == 0:
        return Confinement.HANDLES
    try:
        walled = _run_in_new_thread(_landlock_works)
    except OSError:
        return Confinement.HANDLES
    return Confinement.LANDLOCK if walled else Confinement.HANDLES


def _landlock_works() -> bool:
    landlock.restrict_thread(())
    try:
        os.listdir("/")
    except PermissionError:
        return True
    return False


def start_program(program: ConfinedProgram, confinement: Confinement) -> subprocess.Popen[bytes]:
    """Starts the program, with its output and errors piped and its input empty. Raises SystemFault."""
    group = die_with_parent_group()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if confinement is Confinement.HANDLES:
            return _spawn(program, nothing, group)
        with contextlib.ExitStack() as opened:
            rules = (*_binary_rules(program.arguments[0], opened), *_read_rules(program.readable))

            def restrict_and_start() -> subprocess.Popen[bytes]:
                # Finalisers must not run in the restricted thread, where they could not delete their files. With the
                # youngest generation collected, this short section ends before the collector runs again.
                gc.collect(0)
                landlock.restrict_thread(rules)
                return _spawn(program, nothing, group)

            return _run_in_new_thread(restrict_and_start)
    except OSError as error:
        raise SystemFault(
            f"{program.arguments[0]} could not be started confined ({confinement}): {error.strerror or error}.",
            hint="Run `toolyard doctor` to see what this machine offers.",
        ) from error
    finally:
        os.close(nothing)


def _spawn(program: ConfinedProgram, stdin: int, group: DieWithParentGroup | None) -> subprocess.Popen[bytes]:
    # The working folder is given by its handle: no path is looked up, so nothing can be swapped on the way.
    return subprocess.Popen(
        program.arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_CLEAN_ENVIRONMENT,
        cwd=f"/proc/self/fd/{program.folder}",
        pass_fds=program.passed if group is None else (*program.passed, group.pipe),
        process_group=None if group is None else group.group,
        bufsize=0,
    )


def _read_rules(folders: Sequence[int]) -> Iterator[LandlockRule]:
    for fd in folders:
        yield LandlockRule(fd, landlock.READ)


def _binary_rules(path: str, opened: contextlib.ExitStack) -> Iterator[LandlockRule]:
    """Yields the rules that let the program execute itself, and load its libraries if it has any."""
    yield LandlockRule(_open_path(path, opened), landlock.EXECUTE | landlock.READ_FILE)
    if needs_libraries(path):
        for folder in _LIBRARY_FOLDERS:
            with contextlib.suppress(FileNotFoundError):
                yield LandlockRule(_open_path(folder, opened), landlock.EXECUTE | landlock.READ)


def _open_path(path: str, opened: contextlib.ExitStack) -> int:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    opened.callback(os.close, fd)
    return fd


@cache
def needs_libraries(path: str) -> bool:
    """Returns whether a program is dynamically linked: whether its ELF headers name a loader."""
    with open(path, "rb") as file:
        header = file.read(_ELF_HEADER_64.size)
        if len(header) < _ELF_HEADER_64.size or not header.startswith(b"\x7fELF\x02\x01"):
            return True  # a script or an unknown architecture: allow the libraries, which contain no secrets
        fields = _ELF_HEADER_64.unpack(header)
        offset, size, count = fields[5], fields[9], fields[10]
        file.seek(offset)
        table = file.read(size * count)
    return any(struct.unpack_from("<I", table, at)[0] == _PT_INTERP for at in range(0, len(table) - 3, size))


def _run_in_new_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a new thread, and returns or raises what it does."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the calling thread
            errors.append(error)

    thread = threading.Thread(target=run, name="toolyard-confined", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]

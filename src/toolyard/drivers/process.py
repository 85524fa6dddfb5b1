"""The process of one run, seen from us: its lines, the end of what it said on stderr, its end.

`CliProcess` owns the leash of a keeper (see `reaper.py`) and the two pipes. `close()` ends everything that is left
and waits for it; our own end, however it comes, does so too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.drivers.orphan_cleanup import RUN_VARIABLE, end_run

LONGEST_LINE = 16 * MIB
_CHUNK = 1 << 16
_TAIL = 1 << 16
"""Bytes of stderr that are kept; the last of them can be shown."""
_SHOWN = 1 << 13
_GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
_KEEPER_SECONDS = 10.0
"""For a keeper to end everything and leave; it bounds itself at half of that."""
_SILENCE_SECONDS = 1.0
_MOST_AFTERWARDS = 4 * MIB
"""Output after the end: what was on its way. More comes only from somebody who was handed our pipe."""
_KEEPER = os.path.join(os.path.dirname(__file__), "reaper.py")


@dataclass(frozen=True, slots=True)
class Start:
    """What is started: the program with its words, where, with which variables, and the folder that goes with it."""

    run: str
    words: Sequence[str]
    workdir: str
    variables: Mapping[str, str] = field(repr=False)
    folder: str = ""
    given: str = os.devnull
    """The file that it reads as its input."""
    held: int = -1
    """A descriptor that keeps others from taking the folder for a leftover; the keeper holds it as well."""


class CliProcess:
    def __init__(self, keeper: asyncio.subprocess.Process, leash: socket.socket, start: Start) -> None:
        self._keeper = keeper
        self._output = cast("asyncio.StreamReader", keeper.stdout)  # both are pipes, see `start`
        self._errors = cast("asyncio.StreamReader", keeper.stderr)
        self._leash = leash
        self._start = start
        self._tail = bytearray()
        self._draining = asyncio.create_task(self._drain())
        self._ending = asyncio.create_task(self._heard_end())
        self._stopping: asyncio.Task[None] | None = None
        self.too_long = 0
        """Lines that were longer than any may be, and are lost."""

    @classmethod
    async def start(cls, start: Start) -> CliProcess:
        """Raises SystemFault where not even the keeper can be started."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _cannot(error) from error
        try:
            keeper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _KEEPER, str(theirs.fileno()), start.folder, start.given, *start.words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=start.workdir,
                env={**start.variables, RUN_VARIABLE: start.run},
                start_new_session=True,
                pass_fds=(theirs.fileno(), *((start.held,) if start.held >= 0 else ())),
            )
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise _cannot(error) from error
            raise
        finally:
            theirs.close()
        ours.settimeout(0)
        return cls(keeper, ours, start)

    async def lines(self) -> AsyncIterator[bytes]:
        """What it prints, line by line, until it and all its children have closed their output, or are gone."""
        held = bytearray()
        is_skipping = False
        async for chunk in self._chunks():
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                if not is_skipping:
                    yield bytes(held + piece)
                is_skipping = False
                held.clear()
            if is_skipping:
                continue
            held += rest
            if len(held) > LONGEST_LINE:
                self.too_long += 1
                is_skipping = True
                held.clear()
        if held:
            yield bytes(held)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Its output. A process that we may not end could hold it open for ever, so its end is not waited for."""
        afterwards = 0
        while afterwards <= _MOST_AFTERWARDS:
            reading = asyncio.ensure_future(self._output.read(_CHUNK))
            try:
                await asyncio.wait({reading, self._ending}, return_when=asyncio.FIRST_COMPLETED)
                if self._ending.done():
                    await asyncio.wait({reading}, timeout=_SILENCE_SECONDS)
                chunk = reading.result() if reading.done() else b""
            finally:
                reading.cancel()
            if not chunk:
                return
            if self._ending.done():
                afterwards += len(chunk)
            yield chunk

    async def ended(self) -> int | None:
        """Wait for the end of the CLI. Its exit code, a signal as a negative number; None where nobody knows it.

        Raises SystemFault where the program could not be started at all.
        """
        said = await asyncio.shield(self._ending)
        word, _, rest = said.partition(" ")
        if word == "none":
            raise SystemFault(f"{self._start.words[0]} could not be started: {rest}.")
        return int(rest) if word == "exit" else None

    def stop(self) -> None:
        """Ask it to end, and make it a moment later. Returns at once."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())

    def tail(self, secrets: Iterable[str] = ()) -> str:
        """The last of what it said on stderr, without the secrets it was given."""
        text = self._tail.decode("utf-8", "replace")
        for secret in secrets:
            text = text.replace(secret, "***")
        return text[-_SHOWN:].strip()  # the beginning may be the half of a secret

    async def close(self) -> None:
        """End whatever is left of it, and wait until it is gone."""
        if self._stopping is not None:
            self._stopping.cancel()
        with contextlib.suppress(OSError):
            self._leash.shutdown(socket.SHUT_WR)  # the keeper ends what is there, and tells
        try:
            async with asyncio.timeout(_KEEPER_SECONDS):
                await self._keeper.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._keeper.kill()
            await self._keeper.wait()
        await self._ending
        for task in (self._draining, self._stopping):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._leash.close()

    async def _stop(self) -> None:
        with contextlib.suppress(OSError):
            self._leash.send(b"T")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.shield(self._ending)
        with contextlib.suppress(OSError):
            self._leash.shutdown(socket.SHUT_WR)
        # A keeper that cannot keep up with what it is to end is no keeper.
        await asyncio.wait({self._ending}, timeout=_KEEPER_SECONDS)
        if not self._ending.done():
            with contextlib.suppress(ProcessLookupError):
                self._keeper.kill()

    async def _heard_end(self) -> str:
        loop = asyncio.get_running_loop()
        said = b""
        with contextlib.suppress(OSError):
            while not said.endswith(b"\n") and (more := await loop.sock_recv(self._leash, 1024)):
                said += more
        if not said:
            # The keeper is gone before its time. Who holds the output open would keep us waiting for ever.
            await asyncio.to_thread(end_run, self._start.run, self._keeper.pid)
        return said.decode("utf-8", "replace").strip()

    async def _drain(self) -> None:
        while chunk := await self._errors.read(_CHUNK):
            self._tail += chunk
            del self._tail[:-_TAIL]


def _cannot(error: OSError) -> SystemFault:
    why = error.strerror or str(error)
    return SystemFault(f"No process could be started for the run: {why}.", retryable=True)

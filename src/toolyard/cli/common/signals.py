"""Stops a run from outside: on signals, and when the reader of the output has gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable, Generator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handle_signals(
    on_first: Callable[[], object], on_second: Callable[[], object], exit_code: int
) -> Generator[None]:
    """Calls `on_first` at the first signal, to stop the run in order.

    A second signal calls `on_second` and exits the process, which ends everything the run started.
    """
    loop, seen = asyncio.get_running_loop(), list[int]()

    def on_signal(number: int) -> None:
        if seen:
            with contextlib.suppress(OSError):
                on_second()
            os._exit(exit_code)
        seen.append(number)
        with contextlib.suppress(OSError):
            on_first()

    mine = [
        each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN
    ]  # ignored signals stay ignored, as under nohup
    for number in mine:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in mine:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def stop_on_broken_pipe(on_gone: Callable[[], object]) -> Generator[None]:
    """Calls `on_gone` when the reader of a piped stdout has gone, even while nothing is printed."""
    loop = asyncio.get_running_loop()
    try:
        output = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(output).st_mode)
    except (OSError, ValueError):  # not a real file
        is_pipe, output = False, -1

    def on_reader_gone() -> None:
        loop.remove_reader(output)
        on_gone()

    if is_pipe:
        loop.add_reader(output, on_reader_gone)  # a pipe's write end becomes readable only on an error
    try:
        yield
    finally:
        if is_pipe:
            loop.remove_reader(output)

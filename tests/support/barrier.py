"""Programs that begin at the same moment, to see what they do to each other.

Each is a Python program that prints "ready" and reads one line before it does anything. They end with the block.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Generator, Sequence


@contextlib.contextmanager
def together(program: str, arguments: Sequence[Sequence[str]]) -> Generator[list[subprocess.Popen[str]]]:
    """One process for each of the `arguments`, all at work. The caller waits for them."""
    running: list[subprocess.Popen[str]] = []
    try:
        for words in arguments:
            command = [sys.executable, "-c", program, *words]
            running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()

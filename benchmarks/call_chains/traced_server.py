"""`toolyard` with a profiler in every thread: `python -m benchmarks.call_chains.traced_server OUTPUT COMMAND...`.

SIGUSR1 starts the recording, SIGUSR2 ends it and writes OUTPUT: the calls of functions of `src/toolyard`, in order,
as JSON `[[thread, file, function], ...]`. The profiler is in place from the start, because Python 3.11 cannot add one
to a running thread.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import toolyard

_SOURCE = os.path.dirname(os.path.realpath(toolyard.__file__)) + os.sep
_calls: list[tuple[int, str, str]] = []
_is_recording = False


def _record(frame: FrameType, event: str, _: object) -> None:
    if _is_recording and event == "call":
        file = frame.f_code.co_filename
        if file.startswith(_SOURCE):
            _calls.append((threading.get_ident(), file[len(_SOURCE) :], frame.f_code.co_name))


def _start(*_: object) -> None:
    global _is_recording  # noqa: PLW0603 - read by the profiler, on every call
    _calls.clear()
    _is_recording = True


def _stop_into(output: str) -> Callable[[int, FrameType | None], None]:
    def stop(_: int, __: FrameType | None) -> None:
        global _is_recording  # noqa: PLW0603 - as above
        _is_recording = False
        with open(f"{output}.part", "w", encoding="utf-8") as file:
            json.dump(_calls, file)
        os.rename(f"{output}.part", output)

    return stop


def main() -> None:
    """Runs the command line with the profiler in every thread."""
    output = sys.argv.pop(1)
    signal.signal(signal.SIGUSR1, _start)
    signal.signal(signal.SIGUSR2, _stop_into(output))
    threading.setprofile(_record)
    sys.setprofile(_record)
    from toolyard.cli.main import main as toolyard_main  # after the profiler is in place

    toolyard_main()


if __name__ == "__main__":
    main()

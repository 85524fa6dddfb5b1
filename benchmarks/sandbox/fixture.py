"""The sandbox that is measured, and runs in it that are checked: a refusal is quick and must never count as a run.

The caller that opens a `Subject` owns the sandbox until the end of the `with` block.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

from benchmarks.lean_client import BenchFault
from benchmarks.rounds import Measured, milliseconds
from toolyard.config.models import CodeExecution
from toolyard.core.closeable import Closeable
from toolyard.sandbox.selection import SandboxChoice, choose_sandbox
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, SandboxSpec, Stream

SUM = "1+1"
SUM_VALUE = "2"
COMMAND = "true"
_SESSION = "bench"
_RUN_SECONDS = 60.0
_SETTLE_SECONDS = 1.0  # the warden imports ahead while it idles, and does not tell when it is done


class Subject(Closeable):
    """One agent's sandbox."""

    def __init__(self, workspace: str, choice: SandboxChoice | None = None) -> None:
        self.choice = choice or chosen()
        self._sandbox = self.choice.make()
        try:
            self._sandbox.start(SandboxSpec(workspace=workspace))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._sandbox.close()

    def settle(self) -> None:
        """Until it is as it is for an agent that has been at work for a while."""
        self.python()
        time.sleep(_SETTLE_SECONDS)

    def python(self) -> None:
        self._run(RunRequest(RunKind.PYTHON, SUM, _RUN_SECONDS))

    def session(self) -> None:
        self._run(RunRequest(RunKind.PYTHON, SUM, _RUN_SECONDS, session=_SESSION))

    def command(self) -> None:
        self._run(RunRequest(RunKind.COMMAND, COMMAND, _RUN_SECONDS))

    def _run(self, request: RunRequest) -> None:
        printed: list[bytes] = []

        def sink(stream: Stream, data: bytes) -> None:
            del stream
            printed.append(data)

        outcome = self._sandbox.run(request, sink, threading.Event())
        value = (outcome.value or {}).get("value")
        is_right = value == SUM_VALUE if request.kind is RunKind.PYTHON else outcome.exit_code == 0
        if outcome.ending is not RunEnding.FINISHED or not is_right:
            said = b"".join(printed).decode("utf-8", "replace")
            raise BenchFault(f"A run in the sandbox failed: {outcome} {said}")


def chosen() -> SandboxChoice:
    """The sandbox that a workspace without a configuration gets."""
    return choose_sandbox(CodeExecution())


def median_milliseconds(work: Callable[[], object], count: int, *, think: float = 0.0) -> Measured:
    """A contender that takes the median of `count` runs of `work`, with `think` seconds of quiet before each."""
    timed = milliseconds(work)

    def run() -> float:
        taken: list[float] = []
        for _ in range(count):
            if think:
                time.sleep(think)
            taken.append(timed())
        return statistics.median(taken)

    return run

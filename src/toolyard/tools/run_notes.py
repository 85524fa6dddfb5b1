"""Notes for the model on how a run ended: what happened, why, and what to do next."""

from __future__ import annotations

from toolyard.core.limits import MIB, RunLimits
from toolyard.sandbox.spec import RunEnding, RunResult

_SIGNALS_FROM = 128
_CPU_SIGNAL, _FILE_SIZE_SIGNAL, _KILL_SIGNAL, _CRASH_SIGNAL = 24, 25, 9, 11


def run_notes(outcome: RunResult, limits: RunLimits) -> list[str]:
    """Returns the notes on a run; none if it ended normally."""
    found = [_ENDINGS[outcome.ending]] if outcome.ending in _ENDINGS else []
    if outcome.ending is RunEnding.OUTPUT:
        found.append(f"Ended: it printed more than {_size_text(limits.output_bytes)}. Send its output to a file.")
    elif outcome.ending is RunEnding.DISK:
        found.append(f"Ended: {outcome.reason}. Write less, or delete what is not needed.")
    elif outcome.ending is RunEnding.MEMORY:
        found.append(f"Ended: the sandbox used more than {_size_text(limits.memory_bytes)} of memory.")
    elif outcome.ending is RunEnding.FINISHED:
        found += _signal_notes(outcome.exit_code - _SIGNALS_FROM, limits)
    if outcome.leftover_processes and outcome.ending is RunEnding.FINISHED:
        ended = (
            "1 process it left running was"
            if outcome.leftover_processes == 1
            else (f"{outcome.leftover_processes} processes it left running were")
        )
        found.append(f"{ended} ended. Use run_in_background for what should run on.")
    if outcome.sandbox_is_new:
        found.append("The sandbox had gone away and was replaced: /tmp, sessions and background commands are gone.")
    return found


_ENDINGS = {
    RunEnding.BUSY: "It did not start: the session was busy with another call the whole time. Name a longer timeout, "
    "or another session.",
    RunEnding.TIMEOUT: "Timed out and was ended; this is what it had printed. Name a longer timeout, or do less.",
    RunEnding.MOUNT_LOST: "Everything in the sandbox was ended: a file that is protected from commands was replaced.",
    RunEnding.LOST: "The sandbox went away while it ran, so its result is unknown. The next run gets a new sandbox.",
}


def _signal_notes(number: int, limits: RunLimits) -> list[str]:
    if number == _CPU_SIGNAL:
        return [f"Ended: it used more than {limits.cpu_seconds} seconds of processor time."]
    if number == _FILE_SIZE_SIGNAL:
        return [f"Ended: it tried to write a file larger than {_size_text(limits.file_bytes)}."]
    if number == _KILL_SIGNAL:
        return ["It was killed."]
    return ["It crashed (segmentation fault)."] if number == _CRASH_SIGNAL else []


def _size_text(count: int) -> str:
    return f"{count / MIB:,.0f} MiB" if count >= MIB else f"{count:,} bytes"

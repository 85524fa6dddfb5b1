"""Captures the output of a run and prepares it for a result, with notes on how the run ended.

Long output is saved whole to a file in the workspace, and the result shows a preview: the beginning and the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolyard.core.calls import OutputCallback, discard_output
from toolyard.core.errors import SecurityError, ToolyardError
from toolyard.core.limits import MIB, Limits, RunLimits
from toolyard.files import file_io
from toolyard.files.mounts import Mounts
from toolyard.sandbox.spec import RunEnding, RunResult, Stream

OUTPUT_FOLDER = ".toolyard/output"
_IGNORE_FILE = ".toolyard/.gitignore"
_IGNORE_ALL = b"*\n"
_PREVIEW_CHARS = 4_000
_SIGNALS_FROM = 128
_CPU_SIGNAL, _FILE_SIZE_SIGNAL, _KILL_SIGNAL, _CRASH_SIGNAL = 24, 25, 9, 11
_ENDINGS = {
    RunEnding.BUSY: "It did not start: the session was busy with another call the whole time. Name a longer timeout, "
    "or another session.",
    RunEnding.TIMEOUT: "Timed out and was ended; this is what it had printed. Name a longer timeout, or do less.",
    RunEnding.MOUNT_LOST: "Everything in the sandbox was ended: a file that is protected from commands was replaced.",
    RunEnding.LOST: "The sandbox went away while it ran, so its result is unknown. The next run gets a new sandbox.",
}


class OutputCapture:
    """The output of one run, by stream."""

    def __init__(
        self, initial: Mapping[Stream, bytes] | None = None, on_output: OutputCallback = discard_output
    ) -> None:
        """`on_output` is called with all captured output."""
        self._on_output = None if on_output is discard_output else on_output
        self._buffers = {stream: bytearray((initial or {}).get(stream, b"")) for stream in Stream}

    def append(self, stream: Stream, data: bytes) -> None:
        self._buffers[stream] += data
        if self._on_output is not None:
            self._on_output(stream.value, data)

    def text(self, stream: Stream) -> str:
        return self._buffers[stream].decode("utf-8", "replace")

    def preview(self, mounts: Mounts, name: str, limits: Limits, *, writable: bool) -> tuple[dict[Stream, str], str]:
        """Returns each stream as the result shows it, and the file with the whole output if it was cut."""
        most = min(limits.command_chars, limits.output_chars)
        if sum(len(self.text(stream)) for stream in Stream) <= most:
            return self._truncated_streams(most, ""), ""
        saved = self.save(mounts, name, limits) if writable else None
        if saved is None:
            return self._truncated_streams(most, ""), ""
        return self._truncated_streams(min(_PREVIEW_CHARS, most), f"; the whole output is in {saved}"), saved

    def _truncated_streams(self, max_chars: int, file: str) -> dict[Stream, str]:
        """Returns both streams, cut in the middle if they are longer than `max_chars` together."""
        texts = {stream: self.text(stream) for stream in Stream}
        if sum(map(len, texts.values())) <= max_chars:
            return texts
        # A short stream is shown whole and leaves its space to the other.
        short = min(texts, key=lambda stream: len(texts[stream]))
        other = Stream.ERR if short is Stream.OUT else Stream.OUT
        texts[short] = truncate_middle(texts[short], max_chars // 2, file)
        texts[other] = truncate_middle(texts[other], max_chars - min(len(texts[short]), max_chars // 2), file)
        return texts

    def save(self, mounts: Mounts, name: str, limits: Limits) -> str | None:
        """Writes all output to a file in the workspace.

        Returns its path as shown to the agent; None if that fails.
        """
        whole = b"".join(
            f"--- {stream} ---\n".encode() + bytes(buffer) + b"\n"
            for stream, buffer in self._buffers.items()
            if buffer
        )
        path = f"{OUTPUT_FOLDER}/{name}.txt"
        try:
            _write_file(mounts, _IGNORE_FILE, _IGNORE_ALL, limits, overwrite=False)
            _write_file(mounts, path, whole[: limits.file_bytes], limits)
        except ToolyardError:
            return None  # the disk is full or read-only: show the preview without a file
        return path


def _write_file(mounts: Mounts, path: str, data: bytes, limits: Limits, *, overwrite: bool = True) -> None:
    with mounts.find(mounts.clean(path)) as target:
        # A command may have put a link here, to make us write a file that it may not write itself.
        if target.relative != path:
            raise SecurityError(f"{path} leads elsewhere, so nothing was written there.")
        if overwrite or not target.exists:
            file_io.rewrite(target, lambda _: data, limits)


def truncate_middle(text: str, max_chars: int, saved_note: str = "") -> str:
    """Cuts the middle out of a text longer than `max_chars`. `saved_note` says where the whole text is."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters left out{saved_note} ...]\n{text[len(text) - half :]}"


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

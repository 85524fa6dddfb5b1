"""What a run printed, gathered while it runs and shown as a result may show it.

What is long goes whole to a file in the workspace, and the result has a preview: the beginning and the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolyard.core.calls import Printed, printed_to_nobody
from toolyard.core.errors import SecurityError, ToolyardError
from toolyard.core.limits import Limits
from toolyard.files import file_io
from toolyard.files.mounts import Mounts
from toolyard.sandbox.spec import Stream

OUTPUT_FOLDER = ".toolyard/output"
_IGNORE_FILE = ".toolyard/.gitignore"
_IGNORE_ALL = b"*\n"
_PREVIEW_CHARS = 4_000


class Captured:
    def __init__(self, kept: Mapping[Stream, bytes] | None = None, also: Printed = printed_to_nobody) -> None:
        """`also` is told what is taken."""
        self._also = also
        self._kept = {stream: bytearray((kept or {}).get(stream, b"")) for stream in Stream}

    def take(self, stream: Stream, data: bytes) -> None:
        self._kept[stream] += data
        self._also(stream.value, data)

    def text(self, stream: Stream) -> str:
        return self._kept[stream].decode("utf-8", "replace")

    def preview(self, mounts: Mounts, name: str, limits: Limits, *, writable: bool) -> tuple[dict[Stream, str], str]:
        """Each stream as a result shows it, and the file that has all of it; no file where nothing was left out."""
        most = min(limits.command_chars, limits.output_chars)
        if sum(len(self.text(stream)) for stream in Stream) <= most:
            return self._cut(most, ""), ""
        saved = self.save(mounts, name, limits) if writable else None
        if saved is None:
            return self._cut(most, ""), ""
        return self._cut(min(_PREVIEW_CHARS, most), f"; the whole output is in {saved}"), saved

    def _cut(self, most: int, file: str) -> dict[Stream, str]:
        """Each stream, cut in the middle when both together are longer than `most` characters."""
        texts = {stream: self.text(stream) for stream in Stream}
        if sum(map(len, texts.values())) <= most:
            return texts
        # A short stream is shown whole and leaves its room to the other.
        short = min(texts, key=lambda stream: len(texts[stream]))
        other = Stream.ERR if short is Stream.OUT else Stream.OUT
        texts[short] = cut(texts[short], most // 2, file)
        texts[other] = cut(texts[other], most - min(len(texts[short]), most // 2), file)
        return texts

    def save(self, mounts: Mounts, name: str, limits: Limits) -> str | None:
        """Write everything to a file in the workspace; its path as shown to the agent, or None where that fails."""
        whole = b"".join(
            f"--- {stream} ---\n".encode() + bytes(kept) + b"\n" for stream, kept in self._kept.items() if kept
        )
        path = f"{OUTPUT_FOLDER}/{name}.txt"
        try:
            _write(mounts, _IGNORE_FILE, _IGNORE_ALL, limits, anew=False)
            _write(mounts, path, whole[: limits.file_bytes], limits)
        except ToolyardError:
            return None  # a full or read-only disk: what can be shown is shown all the same
        return path


def _write(mounts: Mounts, path: str, data: bytes, limits: Limits, *, anew: bool = True) -> None:
    with mounts.find(mounts.clean(path)) as target:
        # A command may have put a link here, to have a file written that it may not write itself.
        if target.relative != path:
            raise SecurityError(f"{path} leads elsewhere, so nothing was written there.")
        if anew or not target.exists:
            file_io.rewrite(target, lambda _: data, limits)


def cut(text: str, most: int, file: str = "") -> str:
    """The beginning and the end of a text that is longer than `most` characters; `file` says where all of it is."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters left out{file} ...]\n{text[len(text) - half :]}"

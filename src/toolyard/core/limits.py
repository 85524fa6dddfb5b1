"""Every size and time that bounds a call, in one place. The configuration may change them (`limits:`)."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    file_bytes: int = 10 * MIB
    """The largest file a tool reads whole, writes or edits."""
    output_chars: int = 60_000
    """The most text one result carries; what is longer is paged or cut with a note."""
    read_lines: int = 2_000
    """Lines that Read returns when no limit is given."""
    line_chars: int = 2_000
    """A longer line is cut in what Read shows (never in the file)."""
    list_entries: int = 2_000
    """Entries that LS, Glob and directory listings return."""
    call_seconds: float = 60.0
    """The deadline of one call."""
    path_bytes: int = 4_095
    name_bytes: int = 255
    pattern_chars: int = 2_000
    """The longest search pattern or glob."""
    lock_seconds: float = 10.0
    """How long a write waits for another writer of the same folder."""


DEFAULT_LIMITS = Limits()

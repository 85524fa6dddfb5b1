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
    command_chars: int = 30_000
    """The most that a command or code may print to be shown whole; of more there is a preview, and a file."""
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
    overwrite_unread: bool = False
    """Whether Write and NotebookEdit may change a file that the session has not read."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one command or piece of code may use. The configuration may change them (`code_execution: limits:`)."""

    seconds: float = 120.0
    """The wall clock of a run that names no time-out."""
    most_seconds: float = 600.0
    """The longest time-out a run may name."""
    cpu_seconds: int = 600
    memory_bytes: int = 4 * 1024 * MIB
    """Of one process, and of all together where cgroups can be used."""
    processes: int = 1_000
    """Processes and threads of one agent."""
    open_files: int = 4_096
    file_bytes: int = 1024 * MIB
    """The largest file a run may write."""
    output_bytes: int = 10 * MIB
    disk_bytes: int = 4 * 1024 * MIB
    """What a run may add to the disk."""
    temporary_bytes: int = 512 * MIB
    """The private /tmp, which lies in memory."""


DEFAULT_RUN_LIMITS = RunLimits()

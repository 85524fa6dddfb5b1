"""Limits on sizes and times of a call. The configuration may change them (`limits:`)."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one tool call."""

    file_bytes: int = 10 * MIB
    """The largest file that a tool reads completely, writes or edits."""
    output_chars: int = 60_000
    """The longest text of one result; longer output is paged or truncated with a note."""
    command_chars: int = 30_000
    """The longest output of a command or code that is shown completely; of longer output, a preview and a file."""
    read_lines: int = 2_000
    """Lines that Read returns if the call gives no limit."""
    line_chars: int = 2_000
    """Read truncates longer lines in its output (never in the file)."""
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
    """Resource limits of one command or piece of code. The configuration may change them
    (`code_execution: limits:`).
    """

    seconds: float = 120.0
    """The wall-clock limit if a run sets no timeout."""
    most_seconds: float = 600.0
    """The longest timeout that a run may set."""
    cpu_seconds: int = 600
    memory_bytes: int = 4 * 1024 * MIB
    """Limit of each process, and of all together where cgroups are available."""
    processes: int = 1_000
    """Processes and threads of one agent."""
    open_files: int = 4_096
    file_bytes: int = 1024 * MIB
    """The largest file that a run may write."""
    output_bytes: int = 10 * MIB
    disk_bytes: int = 4 * 1024 * MIB
    """How much disk space a run may add."""
    temporary_bytes: int = 512 * MIB
    """Size of the private /tmp, which is kept in memory."""


DEFAULT_RUN_LIMITS = RunLimits()

"""What prevents snapshots, in words: a store that cannot be opened, a refused change, rules without effect."""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.files.os_errors import printable_name

_NAMED = 3


def store_error_types() -> tuple[type[Exception], ...]:
    """What a store may raise. Asked for when something was raised: who starts a server does not wait for sqlite3."""
    import sqlite3

    return ToolyardError, OSError, sqlite3.Error


def open_fault(folder: str, error: Exception) -> SystemFault:
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        hint = "Make the folder writable, or choose another one with --state or `orchestrator.snapshot_storage`."
    else:
        why, hint = str(error), "Make the index anew from what is stored: `toolyard snapshot verify --rebuild`."
    return SystemFault(f"The snapshots in {folder} cannot be opened: {why}.", hint=hint)


def failure_reason(error: Exception) -> str:
    """Why a snapshot could not be taken."""
    error = fd_exhaustion_fault(error) or error
    return error.message if isinstance(error, ToolyardError) else str(error)


def snapshot_required_fault(error: Exception) -> SystemFault:
    """For a change that could not be undone, where the configuration requires that it can."""
    way = error.hint if isinstance(error, ToolyardError) and error.hint else "Mend what prevents it, then try again."
    return SystemFault(
        f"Nothing was changed: `snapshots.required` is set, and no snapshot could be taken: {failure_reason(error)}",
        hint=way,
    )


def unaccepted_rules_line(folders: Sequence[bytes]) -> str:
    """That ignore files have no effect until the user accepts them, and how that is done."""
    from toolyard.files.root_folder import join_path  # with the first snapshot, not with the first message
    from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE

    names = [printable_name(os.fsdecode(join_path(folder, os.fsencode(IGNORE_FILE)))) for folder in folders]
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return (
        f"Snapshots take no notice of what {some} says until the user accepts it:"
        " `toolyard snapshot ignore` lists such files, `--accept PATH` accepts one."
    )

"""Errors and messages of snapshots: a store that cannot be opened, a blocked change, unaccepted ignore rules."""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.files.os_errors import printable_name

_NAMED = 3


def store_error_types() -> tuple[type[Exception], ...]:
    """Returns the exception types that a store may raise.

    A function, so that starting a server does not import sqlite3.
    """
    import sqlite3

    return ToolyardError, OSError, sqlite3.Error


def open_fault(folder: str, error: Exception) -> SystemFault:
    """Builds the error for a store that cannot be opened."""
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        hint = "Make the folder writable, or choose another one with --state or `orchestrator.snapshot_storage`."
    else:
        why, hint = str(error), "Rebuild the index from the packs: `toolyard snapshot verify --rebuild`."
    return SystemFault(f"The snapshots in {folder} cannot be opened: {why}.", hint=hint)


def failure_reason(error: Exception) -> str:
    """Returns why a snapshot could not be taken."""
    error = fd_exhaustion_fault(error) or error
    return error.message if isinstance(error, ToolyardError) else str(error)


def snapshot_required_fault(error: Exception) -> SystemFault:
    """Builds the error for a change that is blocked because a snapshot is required and could not be taken."""
    way = error.hint if isinstance(error, ToolyardError) and error.hint else "Fix the cause, then try again."
    return SystemFault(
        f"Nothing was changed: `snapshots.required` is set, and no snapshot could be taken: {failure_reason(error)}",
        hint=way,
    )


def unaccepted_rules_line(folders: Sequence[bytes]) -> str:
    """Says that ignore files have no effect until the user accepts them, and how to accept them."""
    from toolyard.files.root_folder import join_path  # lazy: needed only with the first snapshot
    from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE

    names = [printable_name(os.fsdecode(join_path(folder, os.fsencode(IGNORE_FILE)))) for folder in folders]
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return (
        f"The rules in {some} have no effect on snapshots until the user accepts them:"
        " `toolyard snapshot ignore` lists such files, `--accept PATH` accepts one."
    )

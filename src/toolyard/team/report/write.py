"""Writes the report at the end of a run. A failure never fails the run."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

from toolyard.core.errors import ToolyardError
from toolyard.team.report import write_report


def try_write_report(folder: str, diff_of: Callable[[str], str]) -> None:
    """Writes the report; a diff that cannot be read is replaced by its error."""

    def diff(agent: str) -> str:
        try:
            return diff_of(agent)
        except (ToolyardError, OSError, sqlite3.Error) as error:
            return f"The changes cannot be shown: {error}"

    with contextlib.suppress(OSError):  # a full disk must not fail a run that has its answer
        write_report(folder, diff)

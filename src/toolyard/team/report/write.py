"""The report of a run, written when it is over. That it cannot be written spoils no run."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

from toolyard.core.errors import ToolyardError
from toolyard.team.report import write_report


def try_write_report(folder: str, diff_of: Callable[[str], str]) -> None:
    def diff(agent: str) -> str:
        try:
            return diff_of(agent)
        except (ToolyardError, OSError, sqlite3.Error) as error:
            return f"The changes cannot be shown: {error}"

    with contextlib.suppress(OSError):  # a full disk: the answer and the files are there all the same
        write_report(folder, diff)

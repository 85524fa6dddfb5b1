"""The command that undoes what was just done to a workspace."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from toolyard.cli.audit import printable
from toolyard.cli.options import runnable


def undoing(before: str, paths: Sequence[str]) -> str:
    """Of these paths alone, since others may be worked on before somebody thinks of it."""
    command = f"toolyard snapshot restore {before}"
    told = runnable(f"To undo it: `{command}`").replace("`", "")
    places = (shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths)
    return printable(told.replace(command, " ".join((command, *places)), 1))

"""The command that undoes what was just done to a workspace."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from toolyard.cli.common.options import complete_commands
from toolyard.core.text import printable
from toolyard.files.os_errors import printable_name


def undo_hint(before: str, paths: Sequence[str], *, with_git: bool = False) -> str:
    """Of these paths alone, since others may be worked on before somebody thinks of it."""
    command = f"toolyard snapshot restore {before}{' --with-git' if with_git else ''}"
    told = complete_commands(f"To undo it: `{command}`").replace("`", "")
    # As they are told: a terminal may not show a name, and a restore knows it by that spelling.
    places = (shlex.quote(printable_name(f"./{path}" if path.startswith("-") else path)) for path in paths)
    return printable(told.replace(command, " ".join((command, *places)), 1))

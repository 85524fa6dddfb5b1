"""The hint that shows how to undo a change of a workspace."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from toolyard.cli.common.options import complete_commands
from toolyard.core.text import printable
from toolyard.files.os_errors import printable_name


def undo_hint(before: str, paths: Sequence[str], *, with_git: bool = False) -> str:
    """Returns the command that restores these paths only, since others may have changed by the time it is used."""
    command = f"toolyard snapshot restore {before}{' --with-git' if with_git else ''}"
    hint = complete_commands(f"To undo it: `{command}`").replace("`", "")
    # Escaped: a terminal may not show a name, and `restore` accepts the escaped form.
    quoted = (shlex.quote(printable_name(f"./{path}" if path.startswith("-") else path)) for path in paths)
    return printable(hint.replace(command, " ".join((command, *quoted)), 1))

"""Error messages for names that do not exist, with suggestions."""

from __future__ import annotations

import os
import re
from itertools import islice

from toolyard.config.suggestions import closest_match
from toolyard.dispatch.call_context import CallContext
from toolyard.files.mounts import Target
from toolyard.files.os_errors import printable_name
from toolyard.files.search.glob import glob

_MOST_ENTRIES = 2_000
_MOST_SUGGESTIONS = 3
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


def missing_file_message(ctx: CallContext, target: Target, path: str) -> str:
    """Returns that the path does not exist, and what was probably meant."""
    message = f"{path} does not exist"
    if any(sign in path for sign in "*?"):
        return f"{message}; patterns are not expanded, name the folder instead"
    near = _closest_in_folder(ctx, target)
    if near:
        return f"{message}; did you mean {near}?"
    elsewhere = _same_name_elsewhere(ctx, target.missing[-1])
    return f"{message}; did you mean {', '.join(elsewhere)}?" if elsewhere else message


def _closest_in_folder(ctx: CallContext, target: Target) -> str:
    """Returns the most similar name in the last existing folder of the path."""
    folder = target.handle.real
    fd = target.handle.reopen_fd(os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(fd) as entries:
            names = [
                entry.name
                for entry in islice(entries, _MOST_ENTRIES)
                if ctx.permissions.is_visible(f"{folder}/{entry.name}")
            ]
    except OSError:
        return ""
    finally:
        os.close(fd)
    near = closest_match(target.missing[0], names)
    return printable_name(ctx.mounts.display_path(os.path.join(folder, near, *target.missing[1:]))) if near else ""


def _same_name_elsewhere(ctx: CallContext, name: str) -> tuple[str, ...]:
    """Returns files with the same name in other folders."""
    found = glob(
        ctx.mounts.workspace,
        ".",
        "**/" + _SPECIAL.sub(r"\\\1", name),
        visible=ctx.permissions.is_visible,
        limits=ctx.limits,
        cancel=ctx.budget.cancelled,
        deadline=ctx.budget.deadline,
    )
    return found.files[:_MOST_SUGGESTIONS]

"""What to say of a name that names nothing: what was probably meant."""

from __future__ import annotations

import os
import re
from itertools import islice

from toolyard.config.suggestions import closest
from toolyard.dispatch.call_context import Gate
from toolyard.files.mounts import Target
from toolyard.files.os_errors import shown
from toolyard.files.search.glob import glob

_LOOKED_AT = 2_000
_TOLD = 3
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


def told_missing(gate: Gate, target: Target, path: str) -> str:
    """That nothing is there, and what is near."""
    said = f"{path} does not exist"
    if any(sign in path for sign in "*?"):
        return f"{said}; patterns are not expanded, name the folder instead"
    near = _in_folder(gate, target)
    if near:
        return f"{said}; did you mean {near}?"
    elsewhere = _elsewhere(gate, target.missing[-1])
    return f"{said}; did you mean {', '.join(elsewhere)}?" if elsewhere else said


def _in_folder(gate: Gate, target: Target) -> str:
    """The name in the last folder that exists which comes closest to the first one that does not."""
    folder = target.handle.real
    fd = target.handle.reopen(os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in islice(entries, _LOOKED_AT) if gate.visible(f"{folder}/{entry.name}")]
    except OSError:
        return ""
    finally:
        os.close(fd)
    near = closest(target.missing[0], names)
    return shown(gate.mounts.shown(os.path.join(folder, near, *target.missing[1:]))) if near else ""


def _elsewhere(gate: Gate, name: str) -> tuple[str, ...]:
    """Files of that very name in other folders."""
    found = glob(
        gate.mounts.workspace,
        ".",
        "**/" + _SPECIAL.sub(r"\\\1", name),
        visible=gate.visible,
        limits=gate.limits,
        cancel=gate.cancelled,
        deadline=gate.deadline,
    )
    return found.files[:_TOLD]

"""Starts a module of this package as a process of its own, from any working directory."""

from __future__ import annotations

import os
import sys

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); module = sys.argv.pop(1); "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module` with `arguments`, like `python -m`."""
    return [sys.executable, "-c", _PROGRAM, _CHECKOUT, module, *arguments]

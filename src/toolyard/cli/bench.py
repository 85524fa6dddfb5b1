"""`toolyard bench`: runs the benchmarks of a checkout. They are not part of an installed Toolyard."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import toolyard

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(toolyard.__file__))))
_WRONG_USE = 2
_NOT_INSTALLED = """toolyard bench measures Toolyard beside its peers.
The benchmarks are not part of an installed Toolyard: clone the repository, run `make setup` there,
then `.venv/bin/toolyard bench --help`."""


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure Toolyard beside its peers, in one run. Needs a checkout of the sources."""
    if not os.path.isfile(os.path.join(_CHECKOUT, "benchmarks", "__main__.py")):
        asks_for_help = "--help" in arguments
        click.echo(_NOT_INSTALLED, err=not asks_for_help)
        sys.exit(0 if asks_for_help else _WRONG_USE)
    sys.path.insert(0, _CHECKOUT)
    from benchmarks.__main__ import bench as benchmarks  # pyright: ignore[reportMissingImports]

    group: Any = benchmarks
    group.main(args=list(arguments), prog_name="toolyard bench", standalone_mode=True)

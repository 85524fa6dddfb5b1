"""Where a CLI stands: an empty folder, so that nothing around it takes effect. And how it is spoken to."""

from __future__ import annotations

import os

from toolyard.drivers.driver import RunSpec

INSTRUCTIONS_FILE_NAME = "toolyard-run.md"
"""The name under which a CLI is told to look for instructions: nobody else has a file of that name."""


def workdir_relative_path(run: RunSpec, name: str) -> str:
    """The path of a file in the folder where the CLI stands, as a recipe names files.

    Some CLIs go up from there until they find a file of some name. An empty one is where they stop.
    """
    return os.path.join(os.path.relpath(run.workdir, run.folder), name)


def escape_slash_command(prompt: str) -> str:
    """The prompt as words for the model. A slash at its very beginning would make it a command of the CLI's own."""
    return "\n" + prompt if prompt.startswith("/") else prompt

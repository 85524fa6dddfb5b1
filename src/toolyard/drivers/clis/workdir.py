"""The empty working folder of a CLI, in which no settings of the surroundings apply."""

from __future__ import annotations

import os

from toolyard.drivers.driver import RunSpec

INSTRUCTIONS_FILE_NAME = "toolyard-run.md"
"""Name of the instructions file that a CLI looks for; chosen so that no other file has it."""


def workdir_relative_path(run: RunSpec, name: str) -> str:
    """Returns the path of a file in the working folder, relative to the run's folder as in a launch spec.

    Some CLIs search parent folders for a file of a given name; an empty file here stops them.
    """
    return os.path.join(os.path.relpath(run.workdir, run.folder), name)


def escape_slash_command(prompt: str) -> str:
    """Returns the prompt so that the CLI does not take a leading slash for one of its commands."""
    return "\n" + prompt if prompt.startswith("/") else prompt

"""`toolyard demo`: run an agent's session in the terminal, in a temporary folder.

Exit codes: 0 every step ended as expected, 1 otherwise.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import click

from toolyard.config.settings import Settings
from toolyard.demo.display import screen_for
from toolyard.demo.project import make_project
from toolyard.demo.session import STEPS, run_session
from toolyard.storage.audit_reader import read
from toolyard.storage.audit_verifier import verify
from toolyard.storage.state_folder import state_dir

FAILED = 1
_EXAMPLES = """\b
Examples:
  toolyard demo          watch it
  toolyard demo --keep   keep the folder, to look at the files and the audit log
"""


@click.command(epilog=_EXAMPLES)
@click.option("--keep", is_flag=True, help="Keep the demo's folder.")
def demo(*, keep: bool) -> None:
    """Run an agent's edit-search-read session against the real server."""
    from rich.console import Console

    settings = Settings.from_environment()
    screen = screen_for(Console(no_color=settings.no_color or None))
    folder = os.path.realpath(tempfile.mkdtemp(dir=settings.temp_dir, prefix="toolyard-demo-"))
    try:
        workspace, state = make_project(folder), os.path.join(folder, "state")
        screen.show_start(workspace)
        unexpected = 0
        for number, played in enumerate(run_session(workspace, state), start=1):
            screen.show_step(number, played)
            unexpected += not played.is_as_expected
        log = state_dir(state, workspace)
        found = verify(log)
        screen.show_audit(tuple(read(log, last=len(STEPS))), found)
        unexpected += not found.ok
        note = f" The folder was kept: {folder}" if keep else ""
        well = "Nothing outside the workspace was read; every call is in the audit log."
        screen.show_end(f"{f'{unexpected} steps did not end as expected.' if unexpected else well}{note}")
    finally:
        if not keep:
            shutil.rmtree(folder)
    if unexpected:
        sys.exit(FAILED)

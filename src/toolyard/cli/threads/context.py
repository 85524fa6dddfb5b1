"""What the commands of `toolyard threads` share: their options, and the threads they mean."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from dataclasses import dataclass

import click

from toolyard.assistant.threads.location import open_workspace_threads
from toolyard.assistant.threads.store import ExpiredThread, ThreadStore, UnknownThread
from toolyard.cli.common.workspace_group import workspace_command
from toolyard.cli.common.workspace_lookup import WorkspaceData, WorkspaceOptions, resolve_data_workspace
from toolyard.config.assistant import SQLITE_STORAGE
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.workspace.agent_paths import AgentPaths, resolve_agent_paths

_SHORTEST_PREFIX = 6
"""Of an id: fewer characters are more likely a slip."""
_SHOWN_IDS = 5
_SHOWN_CHARS = 40
_EXAMPLES = """\b
Examples:
  toolyard threads list
  toolyard threads show 3f0c9a61
  toolyard threads search "index reports"
  toolyard threads export 3f0c9a61 -o thread.md
  toolyard threads delete 3f0c9a61
"""


@click.group(epilog=_EXAMPLES)
def threads() -> None:
    """See, search, export and delete the threads of `toolyard assistant`."""


command = workspace_command(threads, who=None, state="Where the state of workspaces is kept.")
"""A command of the group."""


@dataclass(frozen=True, slots=True)
class ThreadsContext:
    """The threads of a workspace."""

    store: ThreadStore
    location: str
    """Whose they are and where they would be, for the end of a sentence."""

    @property
    def empty_message(self) -> str:
        """That there are none, in words."""
        return f"There are no threads {self.location}."


@contextlib.contextmanager
def open_threads(where: WorkspaceOptions) -> Generator[ThreadsContext]:
    """The threads of the workspace that is meant; where there are none, nothing is made.

    Raises ConfigError for a workspace that is not there, unless it left threads behind.
    """
    place = resolve_data_workspace(WorkspaceData.THREADS, where)
    folder = os.path.realpath(place.workspace)
    home = resolve_agent_paths(place.config, folder, None, Settings.from_environment(), where.state or "")
    with open_workspace_threads(home, place.config) as opened:
        if not os.path.isdir(folder) and not opened.threads.list(1):
            raise ConfigError(f"{folder} is not a folder.", hint="Name the project with --workspace.")
        yield ThreadsContext(opened.threads, _describe_location(home, place.config))


def _describe_location(home: AgentPaths, config: Config) -> str:
    if config.assistant.storage == SQLITE_STORAGE:
        return f"of {home.root} in {home.state}"
    return f"of {config.assistant.namespace or home.root} in Redis"


def find_thread_id(shelf: ThreadsContext, given: str) -> str:
    """The id of the thread that is meant. Raises ValidationError."""
    if len(given) < _SHORTEST_PREFIX:
        raise ValidationError(
            f"{given!r} is too short for the id of a thread.", hint=f"Give at least {_SHORTEST_PREFIX} characters."
        )
    found = shelf.store.ids_with_prefix(given)
    if len(found) > 1:
        several = ", ".join(found[:_SHOWN_IDS])
        raise ValidationError(f"{given!r} begins several ids: {several}.", hint="Give more of it.")
    if found:
        return found[0]
    hint = "See those there are with `toolyard threads list`."
    try:
        shelf.store.read(given)
    except ExpiredThread:
        raise ValidationError(f"Thread {given} has expired, and its text is deleted.", hint=hint) from None
    except UnknownThread:
        raise ValidationError(f"There is no thread {given[:_SHOWN_CHARS]!r} {shelf.location}.", hint=hint) from None
    return given  # it came in this moment

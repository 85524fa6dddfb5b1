"""The options that the commands of `toolyard threads` share, and the threads they work on."""

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
"""Minimum length of an id prefix: a shorter one is more likely a typo."""
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
    """Show, search, export and delete the threads of `toolyard assistant`."""


command = workspace_command(threads, who=None, state="The folder for the state of workspaces.")
"""Adds a command to the group."""


@dataclass(frozen=True, slots=True)
class ThreadsContext:
    """The threads of a workspace."""

    store: ThreadStore
    location: str
    """Owner and location of the threads, as the end of a sentence."""

    @property
    def empty_message(self) -> str:
        """The message for a workspace without threads."""
        return f"There are no threads {self.location}."


@contextlib.contextmanager
def open_threads(where: WorkspaceOptions) -> Generator[ThreadsContext]:
    """Opens the threads of the chosen workspace; creates nothing if there are none.

    Raises ConfigError for a missing workspace, unless it left threads behind.
    """
    resolved = resolve_data_workspace(WorkspaceData.THREADS, where)
    folder = os.path.realpath(resolved.workspace)
    home = resolve_agent_paths(resolved.config, folder, None, Settings.from_environment(), where.state or "")
    with open_workspace_threads(home, resolved.config) as opened:
        if not os.path.isdir(folder) and not opened.threads.list(1):
            raise ConfigError(f"{folder} is not a folder.", hint="Pass the project with --workspace.")
        yield ThreadsContext(opened.threads, _describe_location(home, resolved.config))


def _describe_location(home: AgentPaths, config: Config) -> str:
    if config.assistant.storage == SQLITE_STORAGE:
        return f"of {home.root} in {home.state}"
    return f"of {config.assistant.namespace or home.root} in Redis"


def find_thread_id(context: ThreadsContext, given: str) -> str:
    """Returns the full id of the thread that is meant. Raises ValidationError."""
    if len(given) < _SHORTEST_PREFIX:
        raise ValidationError(
            f"{given!r} is too short for a thread id.", hint=f"Give at least {_SHORTEST_PREFIX} characters."
        )
    found = context.store.ids_with_prefix(given)
    if len(found) > 1:
        several = ", ".join(found[:_SHOWN_IDS])
        raise ValidationError(f"{given!r} is a prefix of several ids: {several}.", hint="Give more characters.")
    if found:
        return found[0]
    hint = "List the threads with `toolyard threads list`."
    try:
        context.store.read(given)
    except ExpiredThread:
        raise ValidationError(f"Thread {given} has expired, and its text was deleted.", hint=hint) from None
    except UnknownThread:
        raise ValidationError(f"There is no thread {given[:_SHOWN_CHARS]!r} {context.location}.", hint=hint) from None
    return given  # it was created just now

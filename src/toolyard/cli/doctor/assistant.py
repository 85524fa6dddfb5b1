"""Checks `toolyard assistant`: which model would answer, and which optional parts are missing.

No model is called: the checks only look for a key. A Redis that stores threads is queried once, with a short timeout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from toolyard.assistant.threads.location import open_workspace_threads
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace
from toolyard.cli.doctor.check import Check, Status
from toolyard.config.assistant import SQLITE_STORAGE
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.error_wording import ASSISTANT_WORDING
from toolyard.models.model_names import choose_model
from toolyard.workspace.agent_paths import resolve_agent_paths

_WHAT: Final = "assistant"
_OPTIONAL_MODULES: Final = {
    "pydantic_ai": "asking models",
    "tree_sitter_python": "outlines of code",
    "detect_secrets": "the scan for secrets before a commit",
    "rs_bpe": "exact counts of tokens",
}
_INSTALL_HINT: Final = "`pip install 'toolyard[assistant]'` installs it."


def assistant_checks(resolved: ResolvedWorkspace, settings: Settings, state: str | None = None) -> Iterator[Check]:
    """Yields the checks. `state` is the folder for the state of all workspaces, if the user names one."""
    config = resolved.config
    missing = [purpose for module, purpose in _OPTIONAL_MODULES.items() if find_spec(module) is None]
    if missing:
        yield Check(Status.INFO, f"{_WHAT}'s parts", f"not installed: {', '.join(missing)}", _INSTALL_HINT)
    yield _model_check(config, settings)
    if config.assistant.storage != SQLITE_STORAGE:
        yield _threads_check(resolved, settings, state)


def _model_check(config: Config, settings: Settings) -> Check:
    try:
        chosen = choose_model(config.assistant, settings, "chat")
        for tool in config.assistant.models:
            choose_model(config.assistant, settings, tool)
    except ToolyardError as error:
        return Check(Status.WARN, _WHAT, error.message, error.hint)
    try:
        endpoint = resolve_endpoint(chosen.backend, settings.model_access, ASSISTANT_WORDING)
    except ToolyardError as error:
        return Check(Status.INFO, _WHAT, error.message, error.hint)
    access = f"key from {endpoint.key_source}" if endpoint.key_source else f"no key, at {endpoint.address}"
    return Check(Status.OK, _WHAT, f"{chosen.name}, {access}")


def _threads_check(resolved: ResolvedWorkspace, settings: Settings, state: str | None) -> Check:
    try:
        home = resolve_agent_paths(resolved.config, os.path.realpath(resolved.workspace), None, settings, state or "")
        with open_workspace_threads(home, resolved.config) as opened:
            opened.threads.list(1)
    except ToolyardError as error:
        return Check(Status.WARN, f"{_WHAT}'s threads", error.message, error.hint)
    return Check(Status.OK, f"{_WHAT}'s threads", "in Redis, which answers")

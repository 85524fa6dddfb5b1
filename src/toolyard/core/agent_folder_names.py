"""Names of an agent's folders below the root that agents share."""

from __future__ import annotations

import hashlib
import os
import re

from toolyard.core.errors import ValidationError

AGENTS, WORKSPACE = "agents", "workspace"
COMMUNITY = "community"
DEFAULT_AGENT = "agent"
"""The agent's name if none is configured or given."""
DEFAULT_ROOT = "toolyard_workspace"
"""The root beside the configuration file, unless `toolyard.workspace` sets another."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DISALLOWED_RUN = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = frozenset({COMMUNITY})
_MAX_NAME_CHARS = 1_000
_MAX_STEM_CHARS = 60
_DIGEST_BYTES = 5
_DIGEST_SEPARATOR = "~"
"""Not allowed in plain names, so a generated name never equals another agent's own name."""


def folder_name(agent: str) -> str:
    """Returns the folder name of an agent: its own name if that is a valid one, otherwise a stable encoding of it.

    Raises ValidationError for empty or unprintable names, and for `community`, the folder of shared skills.
    """
    if _PLAIN_NAME.fullmatch(agent) and agent not in _RESERVED:
        return agent
    if agent in _RESERVED or not agent.strip() or len(agent) > _MAX_NAME_CHARS or not agent.isprintable():
        raise ValidationError.of(
            "agent", "is not a valid agent name", hint="Use letters, digits, dots, dashes and underscores."
        )
    stem = _DISALLOWED_RUN.sub("-", agent).strip(".-_")[:_MAX_STEM_CHARS] or "agent"
    return f"{stem}{_DIGEST_SEPARATOR}{hashlib.blake2b(agent.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def agent_folder(agent: str, part: str) -> str:
    """Returns the path of one of an agent's folders, relative to the root."""
    return f"{AGENTS}/{folder_name(agent)}/{part}"


def workspace_path(agent: str, cwd: str | None, *, base: str, root: str, home: str) -> str:
    """Returns the folder that an agent works in: its `cwd` resolved against `base`, or its
    own folder below `root`.
    """
    if not cwd:
        return os.path.join(root, agent_folder(agent, WORKSPACE))
    at_home = cwd == "~" or cwd.startswith("~/")
    return os.path.normpath(os.path.join(base, home + cwd[1:] if at_home else cwd))

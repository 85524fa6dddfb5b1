"""What the folders of an agent are called, beneath the root that agents share."""

from __future__ import annotations

import hashlib
import os
import re

from toolyard.core.errors import ValidationError

AGENTS, WORKSPACE = "agents", "workspace"
COMMUNITY = "community"
DEFAULT_AGENT = "agent"
"""The agent where none is configured or named."""
DEFAULT_ROOT = "toolyard_workspace"
"""The root, beside the configuration, where `toolyard.workspace` names no other."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DISALLOWED_RUN = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = frozenset({COMMUNITY})
_MAX_NAME_CHARS = 1_000
_MAX_STEM_CHARS = 60
_DIGEST_BYTES = 5
_DIGEST_SEPARATOR = "~"
"""In no plain name, so that a spelling of ours is never another agent's own name."""


def folder_name(agent: str) -> str:
    """The one folder name of an agent: its own where that can be one, else a spelling that is always the same.

    Refused is what says nothing, and `community`, whose skills are everybody's.
    """
    if _PLAIN_NAME.fullmatch(agent) and agent not in _RESERVED:
        return agent
    if agent in _RESERVED or not agent.strip() or len(agent) > _MAX_NAME_CHARS or not agent.isprintable():
        raise ValidationError.of(
            "agent", "is no name for an agent", hint="Use letters, digits, dots, dashes and underscores."
        )
    stem = _DISALLOWED_RUN.sub("-", agent).strip(".-_")[:_MAX_STEM_CHARS] or "agent"
    return f"{stem}{_DIGEST_SEPARATOR}{hashlib.blake2b(agent.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def agent_folder(agent: str, part: str) -> str:
    """One of an agent's folders, relative to the root."""
    return f"{AGENTS}/{folder_name(agent)}/{part}"


def workspace_path(agent: str, cwd: str | None, *, base: str, root: str, home: str) -> str:
    """The folder that an agent works in: its `cwd`, relative to `base`, or the one that it has beneath `root`."""
    if not cwd:
        return os.path.join(root, agent_folder(agent, WORKSPACE))
    at_home = cwd == "~" or cwd.startswith("~/")
    return os.path.normpath(os.path.join(base, home + cwd[1:] if at_home else cwd))

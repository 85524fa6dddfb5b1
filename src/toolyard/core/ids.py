"""Identifiers for calls and workspaces."""

from __future__ import annotations

import hashlib
import os
import re


def new_id() -> str:
    """Returns a new random identifier, short enough to read aloud."""
    return os.urandom(8).hex()


def workspace_id(real_root: str) -> str:
    """Returns the stable identifier of a workspace: the name of its folder and a digest of its real path."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(real_root.rstrip("/"))).strip(".-")[:40] or "root"
    digest = hashlib.blake2b(os.fsencode(real_root), digest_size=6).hexdigest()
    return f"{stem}-{digest}"

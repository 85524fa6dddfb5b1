"""Identifiers for calls and workspaces."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from functools import partial

_RANDOM_BYTES = 8  # short enough to read aloud

new_id = partial(secrets.token_hex, _RANDOM_BYTES)
"""Returns a new random identifier."""


def workspace_id(real_root: str) -> str:
    """Returns the stable identifier of a workspace: the name of its folder and a digest of its real path."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(real_root.rstrip("/"))).strip(".-")[:40] or "root"
    digest = hashlib.blake2b(os.fsencode(real_root), digest_size=6).hexdigest()
    return f"{stem}-{digest}"

"""Names of temporary files during a write. Listings and searches never show them."""

from __future__ import annotations

import os

TEMPORARY_PREFIX = ".toolyard-tmp-"


def temporary_name() -> str:
    """Returns a new random name for a temporary file."""
    return TEMPORARY_PREFIX + os.urandom(8).hex()

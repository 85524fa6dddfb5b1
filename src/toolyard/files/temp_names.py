"""Names of files that are being written. They never show up in listings and searches."""

from __future__ import annotations

import os

TEMPORARY_PREFIX = ".toolyard-tmp-"


def temporary_name() -> str:
    return TEMPORARY_PREFIX + os.urandom(8).hex()

"""Packages that could not be installed: a reason to skip where no registry is in reach, and a failure otherwise."""

from __future__ import annotations

import re
from typing import NoReturn

import pytest

_UNREACHABLE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENETDOWN|ERR_SOCKET_TIMEOUT"
    r"|\bE50[234]\b|dns error|error sending request|Network is unreachable|Connection refused"
    r"|Name or service not known"
)
"""Words of npm, and of uv, about a network that is not there. A version that does not exist is told otherwise."""
_SHOWN = 500


def not_installed(what: str, said: str) -> NoReturn:
    """`said` is what the installer printed. Skips the test, or fails it."""
    words = f"{what} cannot be installed: {said[-_SHOWN:]}"
    if _UNREACHABLE.search(said):
        pytest.skip(words)
    pytest.fail(words)

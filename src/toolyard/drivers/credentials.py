"""Checks whether a CLI has credentials: a key or a login of its own. Only their existence is checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from toolyard.drivers.driver import Driver


class MissingAccess(NamedTuple):
    """Why a run would not attach, and how to fix it."""

    what: str
    fix: str


def missing_access(driver: Driver, variables: Mapping[str, str], home: str) -> MissingAccess | None:
    """Returns what is missing; None if the CLI has a key or a login, or needs none."""
    if driver.works_without_key or any(variables.get(name) for name in (*driver.keys, *driver.key_alternatives)):
        return None
    if any(os.path.isfile(login.path(home, variables)) for login in driver.logins):
        return None
    return MissingAccess("it has no key and no login", f"Set {driver.keys[0]}, or log in with `{driver.program}`.")

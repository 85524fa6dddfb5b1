"""Whether a CLI has what its provider asks for: a key, or a login of its own. It is only seen to be there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from toolyard.drivers.driver import Driver


class MissingAccess(NamedTuple):
    """What keeps a run from attaching, and what to do about it."""

    what: str
    fix: str


def missing_access(driver: Driver, variables: Mapping[str, str], home: str) -> MissingAccess | None:
    """None where it has a key or a login, or may do without."""
    if driver.works_without_key or any(variables.get(name) for name in (*driver.keys, *driver.key_alternatives)):
        return None
    if any(os.path.isfile(login.path(home, variables)) for login in driver.logins):
        return None
    return MissingAccess("it has no key and no login", f"Set {driver.keys[0]}, or log in with `{driver.program}`.")

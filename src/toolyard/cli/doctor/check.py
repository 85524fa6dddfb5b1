"""The result of one check of `toolyard doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The severity of a result."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One result: what was checked, what was found, and how to fix it."""

    status: Status
    what: str
    found: str
    fix: str = ""

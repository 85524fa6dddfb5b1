"""Results of an inspection: changes, and the outcome of the checks. Pure data.

Nothing here contains a secret: suspected secrets are masked in every text before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeStatus(StrEnum):
    """What a commit does to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    COPIED = "copied"
    TYPE_CHANGED = "type-changed"
    UNTRACKED = "untracked"
    SUBMODULE = "submodule"
    CONFLICTED = "conflicted"


LINE_CUT = " [... the rest of this line is left out]"
"""End of a very long line in a diff."""
NEW_PATH_STATUSES = frozenset({ChangeStatus.ADDED, ChangeStatus.UNTRACKED, ChangeStatus.COPIED, ChangeStatus.RENAMED})
"""Statuses for which the path itself is new."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as a commit would change it. A file that is staged and modified again has two."""

    path: str
    """Relative to the root of the repository; bytes that are not UTF-8 are surrogates."""
    status: ChangeStatus
    is_staged: bool
    old_path: str = ""
    """The previous path of a renamed or copied file."""
    is_binary: bool = False
    blob: str = ""
    """The git object with the new content, if there is one."""
    added: tuple[tuple[int, str], ...] = ()
    """Added lines, each with its number in the new file."""
    removed: tuple[str, ...] = ()
    """Removed lines; for checks only, cleared before the change is shown."""
    last_line: int = 0
    """The last line of the new file that the diff shows."""
    diff: str = ""
    left_out: int = 0
    """Number of diff lines that follow those in `diff`."""
    withheld: str = ""
    """Why the content is not shown; `diff` is then empty."""


class CheckOutcome(StrEnum):
    """The outcome of one check."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckDetail:
    """One observation of a check."""

    path: str
    """Empty if it is about the whole change."""
    line: int
    """0 if it is about the whole file."""
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its outcome."""

    name: str
    outcome: CheckOutcome
    details: tuple[CheckDetail, ...] = ()

    @classmethod
    def from_details(
        cls, name: str, *, failed: tuple[CheckDetail, ...] = (), warned: tuple[CheckDetail, ...] = ()
    ) -> Check:
        """Builds a check whose outcome is that of its worst detail."""
        outcome = CheckOutcome.FAILED if failed else CheckOutcome.WARNED if warned else CheckOutcome.PASSED
        return cls(name, outcome, (*failed, *warned))

"""What an inspection before a commit finds: changes, and what was checked of them. Pure data.

Nothing here holds a secret: what looks like one is masked in every text before it gets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeStatus(StrEnum):
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
"""How a very long line ends in a diff."""
NEW_PATH_STATUSES = frozenset({ChangeStatus.ADDED, ChangeStatus.UNTRACKED, ChangeStatus.COPIED, ChangeStatus.RENAMED})
"""Where the path itself comes with the change."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as a commit would change it. A file that is staged and changed again has two."""

    path: str
    """Relative to the root of the repository; bytes in it that are no UTF-8 are surrogates."""
    status: ChangeStatus
    is_staged: bool
    old_path: str = ""
    """Where it was, if it was renamed or copied."""
    is_binary: bool = False
    blob: str = ""
    """The object that holds the new content, where git has one."""
    added: tuple[tuple[int, str], ...] = ()
    """Lines that come with it, each with its number in the new file."""
    removed: tuple[str, ...] = ()
    """Lines that go; for checks, before the change is told."""
    last_line: int = 0
    """The last line of the new file that the diff shows."""
    diff: str = ""
    left_out: int = 0
    """How many lines of the diff come after those in `diff`."""
    withheld: str = ""
    """Why its content is not to be shown; `diff` is empty then."""


class CheckOutcome(StrEnum):
    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckDetail:
    path: str
    """Empty where it is about the whole change."""
    line: int
    """0 where it is about the whole file."""
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    outcome: CheckOutcome
    details: tuple[CheckDetail, ...] = ()

    @classmethod
    def from_details(
        cls, name: str, *, failed: tuple[CheckDetail, ...] = (), warned: tuple[CheckDetail, ...] = ()
    ) -> Check:
        """As bad as the worst that was found."""
        outcome = CheckOutcome.FAILED if failed else CheckOutcome.WARNED if warned else CheckOutcome.PASSED
        return cls(name, outcome, (*failed, *warned))

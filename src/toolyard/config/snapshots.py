"""`snapshots`: when pictures of the workspace are taken by themselves, and how long they are kept."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from toolyard.config.section import Section, Size
from toolyard.core.limits import MIB

_DEFAULT_MAX_FILES = 100_000
_DEFAULT_MAX_BYTES = 4 * 1024 * MIB
_DEFAULT_MAX_STORED = 20 * 1024 * MIB
_DEFAULT_KEEP = 200
_DEFAULT_DAYS = 30.0

BASELINE_REASON = "before a change"
"""Why the first snapshot of a session is taken."""


class Snapshots(Section):
    automatic: bool = True
    """Whether one is taken before the first change and after each; on demand they are taken always."""
    keep: Size = _DEFAULT_KEEP
    """Of each folder at least so many stay, the newest."""
    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _DEFAULT_DAYS
    """Those that are younger stay, too."""
    ignore: tuple[str, ...] = ()
    """What is left out, in gitignore's spelling, beside the `.toolyardignore` files that the user accepted."""
    most_files: Size = _DEFAULT_MAX_FILES
    """Of a workspace with more entries than these, none is taken automatically."""
    most_bytes: Size = _DEFAULT_MAX_BYTES
    most_stored: Size = _DEFAULT_MAX_STORED
    """Once the store takes more of the disk, none is taken automatically until some were let go."""
    required: bool = False
    """Whether a change is refused when no snapshot of what it may destroy could be taken."""
    watch: bool = True
    """Whether the folder is watched for what programs change (needs the extra `team`)."""

    @model_validator(mode="after")
    def _check_required(self) -> Self:
        if self.required and not self.automatic:
            raise ValueError("`required` needs `automatic: true`, which takes the snapshots")
        return self

    def keeps_less_than_defaults(self) -> bool:
        """Whether less could be undone than without a word about it."""
        limits = (
            (self.keep, _DEFAULT_KEEP),
            (self.days, _DEFAULT_DAYS),
            (self.most_files, _DEFAULT_MAX_FILES),
            (self.most_bytes, _DEFAULT_MAX_BYTES),
            (self.most_stored, _DEFAULT_MAX_STORED),
        )
        # Unwatched, what the user edits within a minute before an agent's change is in no snapshot.
        fewer = not self.automatic or not self.watch or bool(self.ignore)
        return fewer or any(value < default for value, default in limits)

"""The `snapshots` section: when automatic snapshots are taken and how long they are retained."""

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
"""The recorded reason of the first snapshot of a session."""


class Snapshots(Section):
    """When automatic snapshots are taken and how long they are retained."""

    automatic: bool = True
    """Whether a snapshot is taken before the first change and after each change; manual snapshots always work."""
    keep: Size = _DEFAULT_KEEP
    """Minimum number of newest snapshots retained for each folder."""
    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _DEFAULT_DAYS
    """Snapshots younger than this number of days are retained as well."""
    ignore: tuple[str, ...] = ()
    """Paths to exclude, in gitignore syntax, in addition to the `.toolyardignore` files that the user accepted."""
    most_files: Size = _DEFAULT_MAX_FILES
    """Maximum number of entries in a workspace for automatic snapshots."""
    most_bytes: Size = _DEFAULT_MAX_BYTES
    most_stored: Size = _DEFAULT_MAX_STORED
    """Maximum disk usage of the store; above it, no automatic snapshots are taken until old ones are pruned."""
    required: bool = False
    """Whether a change is refused if the snapshot before it fails."""
    watch: bool = True
    """Whether the folder is watched for changes by other programs (needs the extra `team`)."""

    @model_validator(mode="after")
    def _check_required(self) -> Self:
        if self.required and not self.automatic:
            raise ValueError("`required` needs `automatic: true`, which takes the snapshots")
        return self

    def keeps_less_than_defaults(self) -> bool:
        """Whether fewer changes can be undone than with the default settings."""
        limits = (
            (self.keep, _DEFAULT_KEEP),
            (self.days, _DEFAULT_DAYS),
            (self.most_files, _DEFAULT_MAX_FILES),
            (self.most_bytes, _DEFAULT_MAX_BYTES),
            (self.most_stored, _DEFAULT_MAX_STORED),
        )
        # Without watching, the user's edits in the minute before an agent's change are in no snapshot.
        fewer = not self.automatic or not self.watch or bool(self.ignore)
        return fewer or any(value < default for value, default in limits)

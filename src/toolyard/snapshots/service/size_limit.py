"""The largest workspace that automatic snapshots are taken of."""

from __future__ import annotations

from toolyard.core.errors import ToolError


class WorkspaceTooLarge(ToolError):  # noqa: N818 - a fact about the workspace
    """The workspace exceeds the configured limits for automatic snapshots."""


class SizeLimit:
    """Counts the files and bytes of a walk, and raises when there are too many."""

    def __init__(self, files: int, size: int) -> None:
        self._files, self._size = files, size
        self._left = (files, size)

    def add_folder(self, files: int, size: int) -> None:
        """Counts the entries of one folder. Raises WorkspaceTooLarge."""
        self._left = (self._left[0] - files, self._left[1] - size)
        if self._left[0] < 0:
            raise WorkspaceTooLarge(
                f"the workspace has more than {self._files:,} files and folders (`snapshots.most_files`)"
            )
        if self._left[1] < 0:
            raise WorkspaceTooLarge(f"the workspace has more than {self._size:,} bytes (`snapshots.most_bytes`)")

"""The `filesystem` section: what a server that uses `toolyard.bridge` may read of its client's project."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from toolyard.config.section import Section

DEFAULT_ALLOWED_PATHS: Final = ("docs/", "src/", "tests/", ".guide/", ".todo/")


class Filesystem(Section):
    """What servers built with `toolyard.bridge` may read of their clients' projects."""

    allowed_paths: tuple[Annotated[str, Field(min_length=1)], ...] = DEFAULT_ALLOWED_PATHS
    """Folders and files relative to the project's root; `.` means all of it. Everything else is denied."""

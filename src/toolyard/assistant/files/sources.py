"""Data of files that are sent to a model, and of files that are not."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.assistant.secrets.redaction import Secret


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not sent, or not whole; `reason` completes a sentence that starts with its path."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of a file, ready to be sent."""

    path: str
    """As shown to users: relative to the workspace."""
    text: str
    r"""Lines end in `\n`, whatever they do in the file. Secrets are masked."""
    digest: str
    """Of the file's bytes: identifies the version."""
    lines: int
    language: str
    """Empty if it is unknown."""
    is_named: bool
    """Named by the caller, not found in a folder."""
    outline_only: bool = False
    """So many files come before it that it is shown only as an outline."""
    secrets: tuple[Secret, ...] = ()
    """What was masked in the text."""


def count_lines(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))

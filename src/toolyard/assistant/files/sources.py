"""A file as a model can be shown it, and a file that it is not shown."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.assistant.secrets.redaction import Secret


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not sent, or not whole; `reason` ends a sentence that begins with its path."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: str
    """As it is shown: relative to the workspace."""
    text: str
    r"""Its lines end in `\n`, however they do in the file. Secrets in it are masked."""
    digest: str
    """Of its bytes: tells one version from another."""
    lines: int
    language: str
    """Empty when it is unknown."""
    is_named: bool
    """Asked for by name, not found in a folder."""
    outline_only: bool = False
    """It comes after so many others that it is shown as an outline."""
    secrets: tuple[Secret, ...] = ()
    """What was masked in its text."""


def count_lines(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))

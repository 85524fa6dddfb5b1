"""Paths as text: normalises paths from callers and finds the root a path belongs to. Does not access the disk.

Matching is by component and case-sensitive, so `/ws-evil` is not inside `/ws`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from toolyard.core.errors import ValidationError
from toolyard.core.limits import DEFAULT_LIMITS, Limits

HOME_IN_SANDBOX = "/home/agent"
"""The home folder of commands inside the sandbox."""


def normalize_path(path: object, base: str, *, field: str = "path", limits: Limits = DEFAULT_LIMITS) -> str:
    """Returns an absolute, lexically normal path; relative paths start at `base`.

    Raises ValidationError for values that cannot name a file: not text, empty, NUL, unpaired surrogates, too long.
    """
    if not isinstance(path, str):
        raise ValidationError.of(field, "must be a string", hint="Send a path inside the workspace.")
    if not path.strip():
        raise ValidationError.of(field, "is empty", hint="Send a path inside the workspace.")
    if "\0" in path:
        raise ValidationError.of(field, "contains a NUL byte", hint="No file name can; send the path without it.")
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of(field, "is not valid Unicode", hint="Send the path as plain UTF-8 text.") from None
    if len(raw) > limits.path_bytes:
        raise ValidationError.of(field, f"is longer than {limits.path_bytes} bytes", hint="Send a shorter path.")
    if any(len(name) > limits.name_bytes for name in raw.split(b"/")):
        raise ValidationError.of(
            field, f"has a name longer than {limits.name_bytes} bytes", hint="No file can have such a name."
        )
    joined = path if path.startswith("/") else f"{base}/{path}"
    if "//" not in joined and "/." not in joined and not joined.endswith("/"):
        return joined  # already normal, as nearly all paths are
    return "/" + posixpath.normpath(joined).lstrip("/")


def relative_to(path: str, root: str) -> str | None:
    """Returns `path` relative to `root` ("." for the root itself), or None if it is outside. Both are normalised."""
    if root == "/":
        return path.lstrip("/") or "."
    if path == root:
        return "."
    return path[len(root) + 1 :] if path.startswith(root + "/") else None


def is_beneath(path: str, root: str) -> bool:
    """Whether `path` is `root` or inside it."""
    return relative_to(path, root) is not None


def outermost_folders(folders: Iterable[str]) -> list[str]:
    """Returns the folders that are not inside an earlier one."""
    found: list[str] = []
    for folder in folders:
        if not any(is_beneath(folder, other) for other in found):
            found.append(folder)
    return found

"""The structured patch in the results of Write, Edit, MultiEdit and NotebookEdit, in the form Claude Code uses."""

from __future__ import annotations

from typing import Any

from toolyard.dispatch.tool import output_schema
from toolyard.files.content.diffs import DIFF_CHARS, Hunk, hunks

TRUNCATED = "patch_truncated"
_FIELDS: dict[str, str | dict[str, Any]] = {
    "structuredPatch": {"type": "array", "items": {"type": "object"}},
    TRUNCATED: "boolean",
}


def patched_file_schema(**fields: str | dict[str, Any]) -> dict[str, Any]:
    """Returns the output schema of a tool that changes one file: its path, these fields and the patch."""
    return output_schema((TRUNCATED,), path="string", **fields, **_FIELDS)


def structured_patch(before: str, after: str) -> dict[str, Any]:
    """Returns the result fields that describe the change: complete hunks, as many as fit."""
    found = hunks(before, after)
    shown: list[Hunk] = []
    room = DIFF_CHARS
    for hunk in found:
        room -= sum(len(line) + 1 for line in hunk.lines)
        if room < 0:
            break
        shown.append(hunk)
    fields: dict[str, Any] = {"structuredPatch": [_hunk_fields(hunk) for hunk in shown]}
    return {**fields, TRUNCATED: True} if len(shown) < len(found) else fields


def structured_patch_of_bytes(before: bytes | None, after: bytes) -> dict[str, Any]:
    """Returns the same for bytes of unknown encoding. A new file has no patch, and binary content has no lines."""
    if before is None:
        return {"structuredPatch": []}
    if b"\0" in before:
        return {"structuredPatch": [], TRUNCATED: True}
    return structured_patch(before.decode("utf-8", "replace"), after.decode("utf-8", "replace"))


def _hunk_fields(hunk: Hunk) -> dict[str, Any]:
    return {
        "oldStart": hunk.old_start,
        "oldLines": hunk.old_lines,
        "newStart": hunk.new_start,
        "newLines": hunk.new_lines,
        "lines": list(hunk.lines),
    }

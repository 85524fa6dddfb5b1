"""Reads files that git treats as binary, and extracts the text in them.

`.gitattributes` can mark any file as binary, which removes its lines from the diff. So that no secret can hide there,
all but large files are read; the others are reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from toolyard.assistant.precommit.deadline import OutOfTime
from toolyard.assistant.precommit.findings import ChangeStatus, CheckDetail, FileChange
from toolyard.assistant.precommit.git import Git
from toolyard.assistant.precommit.text_in_binary import extract_lines
from toolyard.core.actions import Kind
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import MIB
from toolyard.dispatch.call_context import CallContext

LARGE_BYTES = 5 * MIB
_MOST_BYTES = 40 * MIB
_BATCH_BYTES = 12 * MIB
_MOST_FILES = 2_000
_UNSEEN = "is a binary file that was not inspected"
_ID = re.compile(r"[0-9a-f]{40,64}")
_SIZES = "printf '%s\\n' \"$@\" | git cat-file --batch-check='%(objectname) %(objectsize)'"
_CONTENTS = "printf '%s\\n' \"$@\" | git cat-file --batch='%(objectname) %(objectsize)'"


@dataclass(slots=True)
class UninspectedFiles:
    """Binary files that were not read."""

    warned: list[CheckDetail] = field(default_factory=list[CheckDetail])
    """Too large, or unreadable."""
    failed: list[CheckDetail] = field(default_factory=list[CheckDetail])
    """Over the total limit: the next file could contain a key."""


def read_binaries(git: Git, changes: Iterable[FileChange]) -> tuple[list[FileChange], UninspectedFiles]:
    """Returns the changes with the lines of readable binary files added, and the files that were not read."""
    listed = list(changes)
    binary = [change for change in listed if change.is_binary and change.status is not ChangeStatus.DELETED]
    stored = list(dict.fromkeys(change.blob for change in binary if change.blob and _ID.fullmatch(change.blob)))
    unseen = UninspectedFiles()
    seen: dict[int, FileChange] = {}
    try:
        sizes = _blob_sizes(git, stored)
        contents = _blob_contents(git, sizes)
        left = _MOST_BYTES - sum(map(len, contents.values()))
        for change in binary:
            git.deadline.check()
            size, data = sizes.get(change.blob, 0), contents.get(change.blob)
            if not change.blob:
                size, data = _read_from_work_tree(git.ctx, os.path.join(git.repository.root, change.path), left)
                left -= len(data or b"")
            if data is not None:
                lines = extract_lines(data, git.deadline.check)
                seen[id(change)] = replace(change, added=lines, last_line=lines[-1][0] if lines else 0)
            elif size > LARGE_BYTES:
                text = f"is a binary file of {size / MIB:.0f} MiB that was not inspected"
                unseen.warned.append(CheckDetail(change.path, 0, text))
            else:
                is_left_over = bool(size or change.blob)
                (unseen.failed if is_left_over else unseen.warned).append(CheckDetail(change.path, 0, _UNSEEN))
    except OutOfTime:
        reported = {each.path for each in (*unseen.warned, *unseen.failed)}
        late = (change.path for change in binary if id(change) not in seen)
        unseen.failed += [CheckDetail(path, 0, _UNSEEN) for path in late if path not in reported]
    return [seen.get(id(change), change) for change in listed], unseen


def _blob_sizes(git: Git, blobs: list[str]) -> dict[str, int]:
    if not blobs:
        return {}
    ran = git.run_script(_SIZES, *blobs[:_MOST_FILES])
    words = (line.split() for line in ran.out.decode("ascii", "replace").splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) > 1 and pair[1].isdigit()}


def _blob_contents(git: Git, sizes: dict[str, int]) -> dict[str, bytes]:
    """Reads the blobs that are not large, up to the total limit."""
    found: dict[str, bytes] = {}
    batch: list[str] = []
    total = batch_bytes = 0
    for blob, size in sizes.items():
        if size > LARGE_BYTES or total + size > _MOST_BYTES:
            continue
        if batch_bytes + size > _BATCH_BYTES:
            found |= _read_batch(git, batch)
            batch, batch_bytes = [], 0
        batch.append(blob)
        batch_bytes, total = batch_bytes + size, total + size
    return found | _read_batch(git, batch)


def _read_batch(git: Git, blobs: list[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    data = git.run_script(_CONTENTS, *blobs).out if blobs else b""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        name, _, size = data[at:end].decode("ascii", "replace").partition(" ")
        at = end + 2 + int(size) if size.isdigit() else len(data) + 1
        if at > len(data):  # truncated
            break
        found[name] = data[end + 1 : at - 1]
    return found


def _read_from_work_tree(ctx: CallContext, path: str, most: int) -> tuple[int, bytes | None]:
    """Returns the size of a file, and its content unless it is too large."""
    if not ctx.permissions.is_visible(path):
        return 0, None
    try:
        with ctx.open(path, Kind.READ) as target:
            if not target.exists or not target.handle.is_file or target.real != path:
                return 0, None
            size = target.handle.status.st_size
            if size > min(LARGE_BYTES, most):
                return size, None
            fd = target.handle.reopen_fd(os.O_RDONLY)
            try:
                return size, os.read(fd, LARGE_BYTES)
            finally:
                os.close(fd)
    except (ToolyardError, OSError):  # deleted meanwhile, or not readable: reported as not inspected
        return 0, None

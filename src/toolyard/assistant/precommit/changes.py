"""Collects what a commit would contain: staged, unstaged and untracked changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from toolyard.assistant.precommit.deadline import OutOfTime
from toolyard.assistant.precommit.findings import ChangeStatus, CheckDetail, FileChange
from toolyard.assistant.precommit.git import Git
from toolyard.assistant.precommit.patches import DiffRecord, FilePatch, parse_diff
from toolyard.core.limits import MIB

_MOST_UNTRACKED = 5_000
_MOST_RENAMES = 1_000
_STATUS_BYTES = 4 * MIB
_DIFF_BYTES = 20 * MIB
_SUBMODULE = "160000"
_UNREAD = "the change is too large to inspect"
_STATUS = {
    "A": ChangeStatus.ADDED,
    "M": ChangeStatus.MODIFIED,
    "D": ChangeStatus.DELETED,
    "R": ChangeStatus.RENAMED,
    "C": ChangeStatus.COPIED,
    "T": ChangeStatus.TYPE_CHANGED,
    "U": ChangeStatus.CONFLICTED,
}
# Uncommitted changes in a submodule are not part of this commit. To find them, git would run another git in
# there, with a configuration that has not been made safe.
_DIFF = (
    *(
        "diff",
        "--raw",
        "-z",
        "--patch",
        "--no-abbrev",
        "--full-index",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
    ),
    *(
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--unified=3",
        "--inter-hunk-context=0",
        "--function-context",
        "--submodule=short",
    ),
    *("--ignore-submodules=dirty", "--no-relative"),
)
_RENAMES = ("--find-renames", "--find-copies", f"-l{_MOST_RENAMES}")
# git diffs untracked files like others once an index names them. So a temporary index is created in the
# sandbox's memory, with its own object folder: the repository is not touched.
_UNTRACKED_SCRIPT = """
own=$(mktemp -d) && mkdir -p "$own/objects/info" || exit 1
trap 'rm -rf "$own"' EXIT
objects=$(git rev-parse --git-path objects) && (cd "$objects" && pwd -P) >"$own/objects/info/alternates" || exit 1
index=$(git rev-parse --git-path index)
if test -f "$index"; then cp "$index" "$own/index" || exit 1; fi
most=$1; shift
git ls-files --others --exclude-standard -z | grep -zv '/$' | head -z -n "$most" >"$own/names"
export GIT_OBJECT_DIRECTORY="$own/objects" GIT_INDEX_FILE="$own/index"
git --literal-pathspecs add --intent-to-add --ignore-errors --pathspec-from-file="$own/names" --pathspec-file-nul
git "$@"
"""


@dataclass(slots=True)
class CollectedChanges:
    """The changes of a repository, with what could not be read."""

    branch: str = ""
    """Empty if HEAD is detached."""
    head: str = ""
    """Empty before the first commit."""
    changes: list[FileChange] = field(default_factory=list[FileChange])
    on_disk: list[str] = field(default_factory=list[str])
    """Tracked files that differ on disk from the index, as seen in the sandbox."""
    failed: list[CheckDetail] = field(default_factory=list[CheckDetail])
    warned: list[CheckDetail] = field(default_factory=list[CheckDetail])


def collect_changes(git: Git, *, staged: bool, unstaged: bool) -> CollectedChanges:
    """Collects the staged and unstaged changes, sorted by path."""
    found = CollectedChanges()
    conflicted: set[str] = set()
    try:
        conflicted, untracked = _read_status(git, found, unstaged=unstaged)
        if unstaged:
            found.changes += _diff_changes(git, found, "unstaged", *_DIFF, *_RENAMES, *git.visible_pathspecs)
        if staged:
            found.changes += _diff_changes(git, found, "staged", *_DIFF, *_RENAMES, "--cached")
        if unstaged and untracked:
            found.changes += _untracked_changes(git, found, untracked)
    except OutOfTime:
        found.failed.append(_too_large_detail("this change"))
    found.changes = _merge_conflicted(found.changes, conflicted)
    found.changes.sort(key=lambda change: (change.path, not change.is_staged))
    return found


def _read_status(git: Git, found: CollectedChanges, *, unstaged: bool) -> tuple[set[str], list[str]]:
    """Reads branch and head; returns the conflicted and the untracked paths."""
    untracked = "--untracked-files=all" if unstaged else "--untracked-files=no"
    wanted = ("--porcelain=v2", "--branch", "-z", "--no-ahead-behind", "--no-renames", "--ignore-submodules=dirty")
    ran = git.run("status", *wanted, untracked, output_bytes=_STATUS_BYTES)
    conflicted: set[str] = set()
    others: list[str] = []
    for entry in ran.out.split(b"\0"):
        kind, _, rest = os.fsdecode(entry).partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.oid" and value != "(initial)":
                found.head = value
            elif name == "branch.head" and value != "(detached)":
                found.branch = value
        elif kind == "1" and unstaged and rest[1:2] != ".":
            found.on_disk.append(rest.split(" ", 7)[-1])
        elif kind == "u":
            conflicted.add(rest.split(" ", 9)[-1])
        elif kind == "?":
            others.append(rest)
    if not ran.is_complete:
        found.failed.append(_too_large_detail("git status"))
    return conflicted, others


def _diff_changes(git: Git, found: CollectedChanges, what: str, *words: str) -> Iterator[FileChange]:
    ran = git.run(*words, output_bytes=_DIFF_BYTES)
    records, patches = parse_diff(ran.out, git.deadline.check)
    if not ran.is_complete:
        found.failed.append(_too_large_detail(f"the diff of {what} changes"))
    for record in records:
        change = _change_from_record(record, patches.get(record.path, FilePatch()), is_staged=what == "staged")
        yield change if ran.is_complete or record.path in patches else replace(change, withheld=_UNREAD)


def _untracked_changes(git: Git, found: CollectedChanges, paths: list[str]) -> Iterator[FileChange]:
    repositories = [path for path in paths if path.endswith("/")]
    for path in repositories:
        found.warned.append(CheckDetail(path, 0, "is a separate repository, which was not inspected"))
        yield FileChange(path.rstrip("/"), ChangeStatus.UNTRACKED, is_staged=False)
    names = set(paths).difference(repositories)
    if len(names) > _MOST_UNTRACKED:
        found.failed.append(
            CheckDetail("", 0, f"{len(names):,} files are untracked; {_MOST_UNTRACKED:,} were inspected")
        )
    if not names:
        return
    ran = git.run_script(
        _UNTRACKED_SCRIPT, str(_MOST_UNTRACKED), *_DIFF, "--no-renames", "--diff-filter=A", output_bytes=_DIFF_BYTES
    )
    records, patches = parse_diff(ran.out, git.deadline.check)
    if not ran.is_complete:
        found.failed.append(_too_large_detail("the diff of untracked files"))
    listed = [record for record in records if record.path in names]
    for record in listed:
        change = _change_from_record(record, patches.get(record.path, FilePatch()), is_staged=False)
        withheld = "" if ran.is_complete or record.path in patches else _UNREAD
        yield replace(change, status=ChangeStatus.UNTRACKED, withheld=withheld)
    unread = names.difference(record.path for record in listed)
    if len(names) <= _MOST_UNTRACKED and ran.is_complete:
        for path in sorted(unread):
            found.warned.append(CheckDetail(path, 0, "is untracked and could not be read"))
            yield FileChange(path, ChangeStatus.UNTRACKED, is_staged=False, withheld="it could not be read")


def _change_from_record(record: DiffRecord, patch: FilePatch, *, is_staged: bool) -> FileChange:
    is_submodule = _SUBMODULE in {record.old_mode, record.new_mode}
    status = ChangeStatus.SUBMODULE if is_submodule else _STATUS.get(record.letter, ChangeStatus.MODIFIED)
    return FileChange(
        record.path,
        status,
        is_staged,
        old_path=record.old_path,
        is_binary=patch.is_binary,
        blob=record.blob if record.blob.strip("0") else "",
        added=tuple(patch.added),
        removed=tuple(patch.removed),
        last_line=patch.last_line,
        diff=patch.diff,
        left_out=patch.left_out,
    )


def _merge_conflicted(changes: list[FileChange], conflicted: set[str]) -> list[FileChange]:
    """Merges the several entries of a conflicted file to one, with its content."""
    merged: dict[str, FileChange] = {}
    others: list[FileChange] = []
    for change in changes:
        if change.path not in conflicted:
            others.append(change)
        elif change.path not in merged or (change.added and not merged[change.path].added):
            merged[change.path] = replace(change, status=ChangeStatus.CONFLICTED)
    return [*others, *merged.values()]


def _too_large_detail(what: str) -> CheckDetail:
    return CheckDetail("", 0, f"{what} is too large, so not all of it was checked: split the commit")

"""What a commit would hold, as git tells it: staged, not staged, untracked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from toolyard.assistant.precommit.deadline import OutOfTime
from toolyard.assistant.precommit.findings import Change, Detail, Status
from toolyard.assistant.precommit.git import Git
from toolyard.assistant.precommit.patches import Patch, Record, parse
from toolyard.core.limits import MIB

_MOST_UNTRACKED = 5_000
_MOST_RENAMES = 1_000
_STATUS_BYTES = 4 * MIB
_DIFF_BYTES = 20 * MIB
_SUBMODULE = "160000"
_UNREAD = "the change is too much to look through"
_STATUS = {
    "A": Status.ADDED,
    "M": Status.MODIFIED,
    "D": Status.DELETED,
    "R": Status.RENAMED,
    "C": Status.COPIED,
    "T": Status.TYPE_CHANGED,
    "U": Status.CONFLICTED,
}
# What is not committed in a submodule is no part of this commit either. To find out, git would run another git in
# there, by a configuration that nobody has made safe.
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
# git tells of untracked files as it does of others once an index names them. So one is made that does, in the
# sandbox's own memory, beside objects of its own: the repository is not touched.
_UNTRACKED = """
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
class Collected:
    branch: str = ""
    """Empty where HEAD is on none."""
    head: str = ""
    """Empty before the first commit."""
    changes: list[Change] = field(default_factory=list[Change])
    on_disk: list[str] = field(default_factory=list[str])
    """Tracked files that are not on disk what they are in the index, as it seems in the sandbox."""
    failed: list[Detail] = field(default_factory=list[Detail])
    warned: list[Detail] = field(default_factory=list[Detail])


def collect(git: Git, *, staged: bool, unstaged: bool) -> Collected:
    found = Collected()
    conflicted: set[str] = set()
    try:
        conflicted, untracked = _look(git, found, unstaged=unstaged)
        if unstaged:
            found.changes += _diffed(git, found, "unstaged", *_DIFF, *_RENAMES, *git.uncovered)
        if staged:
            found.changes += _diffed(git, found, "staged", *_DIFF, *_RENAMES, "--cached")
        if unstaged and untracked:
            found.changes += _untracked(git, found, untracked)
    except OutOfTime:
        found.failed.append(_too_much("this change"))
    found.changes = _once(found.changes, conflicted)
    found.changes.sort(key=lambda change: (change.path, not change.is_staged))
    return found


def _look(git: Git, found: Collected, *, unstaged: bool) -> tuple[set[str], list[str]]:
    """Branch and head, which paths are in conflict, and which are untracked."""
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
    if not ran.is_whole:
        found.failed.append(_too_much("git status"))
    return conflicted, others


def _diffed(git: Git, found: Collected, what: str, *words: str) -> Iterator[Change]:
    ran = git.run(*words, output_bytes=_DIFF_BYTES)
    records, patches = parse(ran.out, git.clock.check)
    if not ran.is_whole:
        found.failed.append(_too_much(f"the diff of what is {what}"))
    for record in records:
        change = _change(record, patches.get(record.path, Patch()), is_staged=what == "staged")
        yield change if ran.is_whole or record.path in patches else replace(change, withheld=_UNREAD)


def _untracked(git: Git, found: Collected, paths: list[str]) -> Iterator[Change]:
    repositories = [path for path in paths if path.endswith("/")]
    for path in repositories:
        found.warned.append(Detail(path, 0, "is a repository of its own, which nobody looked into"))
        yield Change(path.rstrip("/"), Status.UNTRACKED, is_staged=False)
    names = set(paths).difference(repositories)
    if len(names) > _MOST_UNTRACKED:
        found.failed.append(Detail("", 0, f"{len(names):,} files are untracked; {_MOST_UNTRACKED:,} were looked at"))
    if not names:
        return
    ran = git.script(
        _UNTRACKED, str(_MOST_UNTRACKED), *_DIFF, "--no-renames", "--diff-filter=A", output_bytes=_DIFF_BYTES
    )
    records, patches = parse(ran.out, git.clock.check)
    if not ran.is_whole:
        found.failed.append(_too_much("the diff of what is untracked"))
    told = [record for record in records if record.path in names]
    for record in told:
        change = _change(record, patches.get(record.path, Patch()), is_staged=False)
        withheld = "" if ran.is_whole or record.path in patches else _UNREAD
        yield replace(change, status=Status.UNTRACKED, withheld=withheld)
    unread = names.difference(record.path for record in told)
    if len(names) <= _MOST_UNTRACKED and ran.is_whole:
        for path in sorted(unread):
            found.warned.append(Detail(path, 0, "is untracked and could not be read"))
            yield Change(path, Status.UNTRACKED, is_staged=False, withheld="it could not be read")


def _change(record: Record, patch: Patch, *, is_staged: bool) -> Change:
    is_submodule = _SUBMODULE in {record.old_mode, record.new_mode}
    status = Status.SUBMODULE if is_submodule else _STATUS.get(record.letter, Status.MODIFIED)
    return Change(
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


def _once(changes: list[Change], conflicted: set[str]) -> list[Change]:
    """A file in conflict is told of in several ways: one of them, with what stands in it."""
    kept: dict[str, Change] = {}
    others: list[Change] = []
    for change in changes:
        if change.path not in conflicted:
            others.append(change)
        elif change.path not in kept or (change.added and not kept[change.path].added):
            kept[change.path] = replace(change, status=Status.CONFLICTED)
    return [*others, *kept.values()]


def _too_much(what: str) -> Detail:
    return Detail("", 0, f"{what} is too much to look through, so not all of it was checked: commit less at once")

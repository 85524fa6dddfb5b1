"""Folder listings, trees, name search, file metadata and the allowed folders."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired, TypedDict

from pydantic import Field

from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.files.os_errors import explain
from toolyard.files.search.folder_listing import FolderTree, ListingEntry, list_tree, search_names
from toolyard.files.search.folder_listing import list_folder as read_folder
from toolyard.linux.statx import birth_time
from toolyard.tools.reference.results import CONTENT, Path, content_result, join_lines

_UNITS = ("B", "KB", "MB", "GB", "TB")
_UNIT = 1024
_NAME_WIDTH, _SIZE_WIDTH = 30, 10
_DATE = "%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)"
_PERMISSION_DIGITS = 3
_MOST_PATTERNS = 100
_INDENT_CHARS, _FRAME_CHARS = 24, 90  # what an entry's JSON takes for each level, and beside its name


class Node(TypedDict):
    """One entry in the output of directory_tree."""

    name: str
    type: Literal["directory", "file"]
    children: NotRequired[list[Node]]


class FolderArguments(Arguments):
    path: Path


class SizesArguments(Arguments):
    path: Path
    sort_by: Annotated[Literal["name", "size"], Field(alias="sortBy")] = "name"


Excluded = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    Field(
        alias="excludePatterns",
        description="Globs to leave out",
        max_length=_MOST_PATTERNS,
        default_factory=list,
    ),
]


class TreeArguments(Arguments):
    path: Path
    excluded: Excluded


class SearchArguments(Arguments):
    path: Path
    pattern: Annotated[str, Field(description='From path on: "*.py" there, "**/*.py" at any depth', min_length=1)]
    excluded: Excluded


class NoArguments(Arguments):
    pass


def list_folder(arguments: FolderArguments, ctx: CallContext) -> Result:
    """Runs the list_directory tool."""
    listing = _read_listing(arguments.path, ctx)
    text, left_out = join_lines(
        [f"{_label(entry)} {entry.name}" for entry in listing.entries], ctx.limits.output_chars
    )
    return content_result(text, _note(listing, left_out))


def list_with_sizes(arguments: SizesArguments, ctx: CallContext) -> Result:
    """Runs the list_directory_with_sizes tool."""
    listing = _read_listing(arguments.path, ctx)
    entries = sorted(listing.entries, key=lambda entry: (entry.name.casefold(), entry.name))
    if arguments.sort_by == "size":
        entries.sort(key=lambda entry: -entry.size)
    text, left_out = join_lines([_sized_line(entry) for entry in entries], ctx.limits.output_chars)
    folders = sum(entry.kind == "folder" for entry in entries)
    total = sum(entry.size for entry in entries)
    summary = f"\nTotal: {len(entries) - folders} files, {folders} directories\nCombined size: {size_text(total)}"
    return content_result(f"{text}\n{summary}" if text else summary, _note(listing, left_out))


def _read_listing(path: str, ctx: CallContext) -> FolderTree:
    with ctx.open(path, Kind.READ) as target:
        listing = read_folder(target.root, target.relative, visible=ctx.permissions.is_visible, limits=ctx.limits)
        return _with_roots(listing, target.root.path, ctx)


def _with_roots(listing: FolderTree, root: str, ctx: CallContext) -> FolderTree:
    """Turns links to other roots into folders, because the file tools follow them."""
    entries = (
        replace(entry, kind="folder", size=0)
        if entry.kind == "link" and ctx.mounts.is_root_alias(os.path.join(root, entry.path))
        else entry
        for entry in listing.entries
    )
    return replace(listing, entries=tuple(entries))


def _label(entry: ListingEntry) -> str:
    return "[DIR]" if entry.kind == "folder" else "[FILE]"


def _sized_line(entry: ListingEntry) -> str:
    size = "" if entry.kind == "folder" else size_text(entry.size).rjust(_SIZE_WIDTH)
    return f"{_label(entry)} {entry.name.ljust(_NAME_WIDTH)} {size}"


def size_text(size: int) -> str:
    """Formats a size: `512 B`, `1.50 KB`."""
    power = 0
    while power < len(_UNITS) - 1 and size >= _UNIT ** (power + 1):
        power += 1
    return f"{size} B" if power == 0 else f"{size / _UNIT**power:.2f} {_UNITS[power]}"


def _note(listing: FolderTree, left_out: int) -> str:
    more = f"{left_out} more entries are left out." if left_out else ""
    return f"{listing.note} {more}".strip()


def tree(arguments: TreeArguments, ctx: CallContext) -> Result:
    """Runs the directory_tree tool."""
    with ctx.open(arguments.path, Kind.READ) as target:
        # A plain name is excluded at any depth.
        ignore = [one if "*" in one or one.startswith("/") else f"**/{one}" for one in arguments.excluded]
        found = list_tree(
            target.root,
            target.relative,
            ignore=ignore,
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            deadline=ctx.budget.deadline,
        )
        found = _with_roots(found, target.root.path, ctx)
    entries = _fitting_entries(found.entries, ctx.limits.output_chars)
    return content_result(
        json.dumps(_nested_nodes(entries), indent=2, ensure_ascii=False),
        _note(found, len(found.entries) - len(entries)),
    )


def _fitting_entries(entries: Sequence[ListingEntry], max_chars: int) -> list[ListingEntry]:
    """Returns the entries whose JSON fits, upper levels first, in their original order."""
    left = max_chars
    fitting: set[int] = set()
    for index in sorted(range(len(entries)), key=lambda index: entries[index].depth):
        left -= len(entries[index].name) + entries[index].depth * _INDENT_CHARS + _FRAME_CHARS
        if left < 0:
            break
        fitting.add(index)
    return [entry for index, entry in enumerate(entries) if index in fitting]


def _nested_nodes(entries: Sequence[ListingEntry]) -> list[Node]:
    """Nests each entry in the list of its folder. A folder precedes its content."""
    open_folders: list[list[Node]] = [[]]
    for entry in entries:
        node: Node = {"name": entry.name, "type": "directory" if entry.kind == "folder" else "file"}
        del open_folders[entry.depth :]
        open_folders[-1].append(node)
        if entry.kind == "folder":
            node["children"] = children = list[Node]()
            open_folders.append(children)
    return open_folders[0]


def search(arguments: SearchArguments, ctx: CallContext) -> Result:
    """Runs the search_files tool."""
    with ctx.open(arguments.path, Kind.READ) as target:
        found = search_names(
            target.root,
            target.relative,
            arguments.pattern,
            arguments.excluded,
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            deadline=ctx.budget.deadline,
        )
        paths = [os.path.join(target.root.path, path) for path in found.paths]
    text, left_out = join_lines(paths, ctx.limits.output_chars)
    more = f"{left_out} more matches are left out; use a narrower pattern." if left_out else ""
    return content_result(text or "No matches found", f"{found.note} {more}".strip())


def info(arguments: FolderArguments, ctx: CallContext) -> Result:
    """Runs the get_file_info tool."""
    with ctx.open(arguments.path, Kind.READ) as target:
        if not target.exists:
            raise explain(FileNotFoundError(2, "not there"), target.path)
        status = target.handle.status
        made = birth_time(target.handle.fd)
    facts = {
        "size": status.st_size,
        "created": "unknown" if made is None else _date(made),
        "modified": _date(status.st_mtime),
        "accessed": _date(status.st_atime),
        "isDirectory": _boolean(stat.S_ISDIR(status.st_mode)),
        "isFile": _boolean(stat.S_ISREG(status.st_mode)),
        "permissions": f"{status.st_mode:o}"[-_PERMISSION_DIGITS:],
    }
    return content_result("\n".join(f"{name}: {fact}" for name, fact in facts.items()))


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(_DATE)
    except (OverflowError, ValueError):  # a file may have a year that datetime cannot represent
        return "unknown"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def allowed_folders(arguments: NoArguments, ctx: CallContext) -> Result:
    """Runs the list_allowed_directories tool."""
    del arguments
    unbounded = ctx.services.policy.mode is PermissionMode.BYPASS
    folders = [*ctx.mounts.declared_roots, *(["/"] if unbounded else [])]
    return content_result("\n".join(["Allowed directories:", *folders]))


LIST_DIRECTORY = Tool(
    name="list_directory",
    description="List what a folder holds, marked [FILE] or [DIR].",
    arguments=FolderArguments,
    output=CONTENT,
    run=list_folder,
    kind="read",
)
LIST_DIRECTORY_WITH_SIZES = Tool(
    name="list_directory_with_sizes",
    description="List what a folder holds with sizes and their sum.",
    arguments=SizesArguments,
    output=CONTENT,
    run=list_with_sizes,
    kind="read",
)
DIRECTORY_TREE = Tool(
    name="directory_tree",
    description="A folder and everything below as JSON: name, type, and children for folders. .git is not entered.",
    arguments=TreeArguments,
    output=CONTENT,
    run=tree,
    kind="read",
)
SEARCH_FILES = Tool(
    name="search_files",
    description="Find files and folders below a folder by name pattern; answers with full paths.",
    arguments=SearchArguments,
    output=CONTENT,
    run=search,
    kind="read",
)
GET_FILE_INFO = Tool(
    name="get_file_info",
    description="Size, times, type and permissions of a file or folder.",
    arguments=FolderArguments,
    output=CONTENT,
    run=info,
    kind="read",
)
LIST_ALLOWED_DIRECTORIES = Tool(
    name="list_allowed_directories",
    description="The folders that can be used here, with everything below them.",
    arguments=NoArguments,
    output=CONTENT,
    run=allowed_folders,
    kind="read",
)

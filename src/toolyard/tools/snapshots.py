"""The snapshot tools for clients. The implementation is loaded with the first call."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from toolyard.core.calls import Result
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import STRINGS, Arguments, Tool, output_schema

_LISTED = 20
_MOST_LISTED = 1_000
_MOST_PATHS = 1_000
_REASON_CHARS = 200
_LATEST = "latest"

Id = Annotated[
    str, Field(description='An id, the beginning of one, "latest", or "latest~1" for the one before', min_length=1)
]
Path = Annotated[str, Field(description="Absolute, or relative to the workspace; all of it when left out")]


class FolderArguments(Arguments):
    context: Annotated[str, Field(description="A writable context path to use instead of the workspace")] = ""


class CreateArguments(FolderArguments):
    reason: Annotated[str, Field(description="What it is for, in a few words", max_length=_REASON_CHARS)] = ""


class ListArguments(FolderArguments):
    limit: Annotated[int, Field(description="How many, the newest first", ge=1, le=_MOST_LISTED)] = _LISTED


class ShowArguments(FolderArguments):
    snapshot: Id = _LATEST
    path: Path = ""


class DiffArguments(FolderArguments):
    before: Id = _LATEST
    after: Annotated[str | None, Field(description="A later snapshot; the folder as it is when left out")] = None
    path: Path = ""
    with_git: Annotated[bool, Field(description="Tell also what changed inside .git, instead of how much")] = False


class RestoreArguments(FolderArguments):
    snapshot: Id
    paths: Annotated[
        list[str] | None, Field(description="Files or folders; everything when left out", max_length=_MOST_PATHS)
    ] = None
    dry_run: Annotated[bool, Field(description="Only say what would be done")] = False
    with_git: Annotated[bool, Field(description="Take git's commits back, too")] = False


class GcArguments(Arguments):
    pass


def create(arguments: CreateArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_create tool."""
    from toolyard.tools import snapshot_operations

    return snapshot_operations.create(arguments.reason, snapshot_operations.SnapshotFolder(ctx, arguments.context))


def list_snapshots(arguments: ListArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_list tool."""
    from toolyard.tools import snapshot_operations

    return snapshot_operations.list_snapshots(
        arguments.limit, snapshot_operations.SnapshotFolder(ctx, arguments.context)
    )


def show(arguments: ShowArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_show tool."""
    from toolyard.tools import snapshot_operations

    return snapshot_operations.show(
        arguments.snapshot, arguments.path, snapshot_operations.SnapshotFolder(ctx, arguments.context)
    )


def diff(arguments: DiffArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_diff tool."""
    from toolyard.tools import snapshot_operations

    folder = snapshot_operations.SnapshotFolder(ctx, arguments.context)
    return snapshot_operations.diff(
        arguments.before, arguments.after, arguments.path, folder, with_git=arguments.with_git
    )


def restore(arguments: RestoreArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_restore tool."""
    from toolyard.tools import snapshot_operations

    folder = snapshot_operations.SnapshotFolder(ctx, arguments.context)
    return snapshot_operations.restore(
        arguments.snapshot, arguments.paths, folder, dry_run=arguments.dry_run, with_git=arguments.with_git
    )


def gc(arguments: GcArguments, ctx: CallContext) -> Result:
    """Runs the snapshot_gc tool."""
    from toolyard.tools import snapshot_operations

    del arguments
    return snapshot_operations.gc(ctx)


_OBJECTS: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
_SNAPSHOT: dict[str, Any] = {"id": "string", "time": "string", "agent": "string", "reason": "string"}

SNAPSHOT_CREATE = Tool(
    name="snapshot_create",
    description="Take a snapshot of the workspace. One is also taken before the first change and after changes.",
    arguments=CreateArguments,
    output=output_schema(**_SNAPSHOT, files="integer", bytes="integer", changed="boolean"),
    run=create,
    kind="write",
    read_only=False,
)
SNAPSHOT_LIST = Tool(
    name="snapshot_list",
    description="List the snapshots of the workspace, the newest first.",
    arguments=ListArguments,
    output=output_schema(snapshots=_OBJECTS),
    run=list_snapshots,
    kind="read",
)
SNAPSHOT_SHOW = Tool(
    name="snapshot_show",
    description="Show what a snapshot holds: a folder's entries, or a file's content.",
    arguments=ShowArguments,
    output=output_schema(
        ("entries", "content", "bytes"),
        snapshot="string",
        path="string",
        entries=_OBJECTS,
        content="string",
        bytes="integer",
    ),
    run=show,
    kind="read",
)
SNAPSHOT_DIFF = Tool(
    name="snapshot_diff",
    description="Show what changed since a snapshot, or between two, as unified diffs.",
    arguments=DiffArguments,
    output=output_schema(
        before="string",
        after={"type": ["string", "null"]},
        changes=_OBJECTS,
        total="integer",
        hidden="integer",
        folded=_OBJECTS,
    ),
    run=diff,
    kind="read",
)
SNAPSHOT_RESTORE = Tool(
    name="snapshot_restore",
    description="Make the workspace, or some paths, what they were. What is there is kept first: it can be undone.",
    arguments=RestoreArguments,
    output=output_schema(
        (
            "restored",
            "changed",
            "undo",
            "written",
            "removed",
            "kept",
            "failed",
            *("left", "snapshot", "would_write", "would_remove", "may_not", "would_leave"),
        ),
        restored="string",
        changed="boolean",
        undo="string",
        written="integer",
        removed="integer",
        kept=_OBJECTS,
        failed=_OBJECTS,
        left=STRINGS,
        snapshot="string",
        would_write=STRINGS,
        would_remove=STRINGS,
        may_not=STRINGS,
        would_leave=STRINGS,
    ),
    run=restore,
    kind="write",
    read_only=False,
    destructive=True,
)
SNAPSHOT_GC = Tool(
    name="snapshot_gc",
    description="Drop old snapshots, as the configuration lets them go, and give their room back.",
    arguments=GcArguments,
    output=output_schema(dropped="integer", bytes_freed="integer"),
    run=gc,
    kind="write",
    read_only=False,
    destructive=True,
)

SNAPSHOT_TOOLS: list[Tool[Any]] = [
    SNAPSHOT_CREATE,
    SNAPSHOT_LIST,
    SNAPSHOT_SHOW,
    SNAPSHOT_DIFF,
    SNAPSHOT_RESTORE,
    SNAPSHOT_GC,
]

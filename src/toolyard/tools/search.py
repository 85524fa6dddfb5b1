"""Grep, Glob and LS: find text, files and folders."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.paths import relative_to
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import STRINGS, Arguments, Tool, output_schema
from toolyard.files.search.folder_listing import list_tree
from toolyard.files.search.glob import glob as search_files
from toolyard.files.search.grep import GrepQuery, GrepResult
from toolyard.files.search.grep import grep as search_text

Where = Annotated[str, Field(description="File or folder; the workspace by default")]
Optional = SkipJsonSchema[None]
_HEAD_LIMIT = 250


class GrepArguments(Arguments):
    pattern: Annotated[str, Field(description="Regular expression (Rust syntax)", min_length=1)]
    path: Where = "."
    glob: Annotated[str | Optional, Field(description='e.g. "*.{ts,tsx}"')] = None
    type: Annotated[str | Optional, Field(description="File type: py, js, rust ...")] = None
    output_mode: Literal["content", "files_with_matches", "count"] = "files_with_matches"
    before: Annotated[int, Field(alias="-B", ge=0)] = 0
    after: Annotated[int, Field(alias="-A", ge=0)] = 0
    around: Annotated[int, Field(alias="-C", ge=0)] = 0
    context: Annotated[int, Field(description="Same as -C", ge=0)] = 0
    line_numbers: Annotated[bool, Field(alias="-n")] = True
    ignore_case: Annotated[bool, Field(alias="-i")] = False
    multiline: bool = False
    head_limit: Annotated[int, Field(description="Most lines; 250 by default, 0 for all", ge=0)] = _HEAD_LIMIT
    offset: Annotated[int, Field(ge=0)] = 0


class GlobArguments(Arguments):
    pattern: Annotated[str, Field(description='e.g. "**/*.py"', min_length=1)]
    path: Where = "."


class LsArguments(Arguments):
    path: Where = "."
    ignore: Annotated[list[str], Field(description="Globs to leave out", default_factory=list)]


def grep(arguments: GrepArguments, ctx: CallContext) -> Result:
    """Runs the Grep tool."""
    query = GrepQuery(
        pattern=arguments.pattern,
        output_mode=arguments.output_mode,
        glob=arguments.glob,
        type=arguments.type,
        case_insensitive=arguments.ignore_case,
        line_numbers=arguments.line_numbers,
        before=arguments.before,
        after=arguments.after,
        context=arguments.around or arguments.context,
        multiline=arguments.multiline,
        head_limit=arguments.head_limit,
        offset=arguments.offset,
    )
    with ctx.open(arguments.path, Kind.READ) as target:
        found = search_text(
            target.root,
            target.relative,
            query,
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            cancel=ctx.budget.cancelled,
            deadline=ctx.budget.deadline,
        )
    return Result((Text(_grep_text(found)),), _grep_facts(found, arguments.output_mode))


def _grep_text(found: GrepResult) -> str:
    if not found.lines and not found.truncated:
        return f"No matches found. {found.note}".strip()
    return f"{found.text}\n\n[{found.note}]" if found.note else found.text


def _grep_facts(found: GrepResult, mode: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "mode": mode,
        "files": list(found.files),
        "matches": found.matches,
        "truncated": found.truncated,
    }
    if mode != "files_with_matches":
        facts["content"] = found.text
    if found.note:
        facts["note"] = found.note
    return facts


def glob(arguments: GlobArguments, ctx: CallContext) -> Result:
    """Runs the Glob tool."""
    start, pattern = _start_and_pattern(arguments, ctx)
    with ctx.open(start, Kind.READ) as target:
        found = search_files(
            target.root,
            target.relative,
            pattern,
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            cancel=ctx.budget.cancelled,
            deadline=ctx.budget.deadline,
        )
    text = "\n".join(found.files) or "No files found."
    facts: dict[str, Any] = {"files": list(found.files), "total": found.total, "truncated": found.truncated}
    if found.note:
        facts["note"] = found.note
    return Result((Text(f"{text}\n\n[{found.note}]" if found.note else text),), facts)


def _start_and_pattern(arguments: GlobArguments, ctx: CallContext) -> tuple[str, str]:
    """Returns where to start and the pattern. One that begins with another declared root starts in that root."""
    path, pattern = arguments.path, arguments.pattern
    if path != ".":
        return path, pattern
    if not pattern.startswith("/"):
        first, _, rest = pattern.removeprefix("./").partition("/")
        leads_out = ctx.mounts.is_root_alias(os.path.join(ctx.mounts.workspace.path, first))
        return (first, rest) if rest and leads_out else (path, pattern)
    fixed = pattern.split("*", 1)[0].split("{", 1)[0].split("[", 1)[0].split("?", 1)[0].rpartition("/")[0]
    folder = ctx.mounts.clean(fixed or "/")
    root = ctx.mounts.root_of(folder)
    if relative_to(folder, ctx.mounts.workspace.path) is None and relative_to(folder, root.path) is not None:
        return root.path if root.path != "/" else folder, folder.rstrip("/") + pattern[len(fixed) :]
    return path, pattern


def list_folder(arguments: LsArguments, ctx: CallContext) -> Result:
    """Runs the LS tool."""
    with ctx.open(arguments.path, Kind.READ) as target:
        tree = list_tree(
            target.root,
            target.relative,
            ignore=arguments.ignore,
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            deadline=ctx.budget.deadline,
        )
        shown = ctx.mounts.display_path(target.path)
    listing = tree.text or "(empty)"
    text = f"{shown}/\n{listing}" + (f"\n\n[{tree.note}]" if tree.note else "")
    facts: dict[str, Any] = {
        "path": shown,
        "tree": tree.text,
        "entries": len(tree.entries),
        "truncated": tree.truncated,
    }
    if tree.note:
        facts["note"] = tree.note
    return Result((Text(text),), facts)


GREP = Tool(
    name="Grep",
    description="Search file contents with ripgrep. .gitignore is respected.",
    arguments=GrepArguments,
    output=output_schema(
        ("content", "note"),
        mode="string",
        files=STRINGS,
        matches="integer",
        truncated="boolean",
        content="string",
        note="string",
    ),
    run=grep,
    kind="read",
)
GLOB = Tool(
    name="Glob",
    description="Find files by name pattern, newest first. .gitignore is respected.",
    arguments=GlobArguments,
    output=output_schema(("note",), files=STRINGS, total="integer", truncated="boolean", note="string"),
    run=glob,
    kind="read",
)
LS = Tool(
    name="LS",
    description="List a folder as a tree.",
    arguments=LsArguments,
    output=output_schema(
        ("note",), path="string", tree="string", entries="integer", truncated="boolean", note="string"
    ),
    run=list_folder,
    kind="read",
)

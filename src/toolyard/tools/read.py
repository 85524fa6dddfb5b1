"""Read: shows a file in a form that a model can use."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool, output_schema
from toolyard.files import file_io
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.render import RenderedFile, render
from toolyard.files.content.text import is_utf8
from toolyard.files.large_file_pages import read_large_page
from toolyard.files.mounts import Target


class ReadArguments(Arguments):
    file_path: Annotated[str, Field(description="Absolute, or relative to the workspace")]
    offset: Annotated[int | SkipJsonSchema[None], Field(description="First line, from 1")] = None
    limit: Annotated[Annotated[int, Field(ge=1)] | SkipJsonSchema[None], Field(description="Number of lines")] = None
    pages: Annotated[str | SkipJsonSchema[None], Field(description='PDF pages, e.g. "1-5"')] = None


def read(arguments: ReadArguments, ctx: CallContext) -> Result:
    """Runs the Read tool."""
    with ctx.open(arguments.file_path, Kind.READ, argument="file_path") as target:
        rendered = _render_target(arguments, ctx, target)
        return Result(rendered.parts, _result_fields(ctx.mounts.display_path(target.path), rendered))


def _render_target(arguments: ReadArguments, ctx: CallContext, target: Target) -> RenderedFile:
    limits = ctx.limits
    if file_io.is_large(target, limits) and (arguments.offset is not None or arguments.limit is not None):
        first = arguments.offset or 1
        return read_large_page(target, first, arguments.limit or limits.read_lines, limits, ctx.check_time)
    contents = file_io.read(target, limits)
    if not ctx.budget.may_block and not _is_plain(contents.data, target.path):
        ctx.require_thread()
    rendered = render(
        contents.data,
        target.path,
        offset=arguments.offset,
        limit=arguments.limit,
        pages=arguments.pages,
        limits=limits,
    )
    ctx.read_tracker.record(ctx.call.session, target.real, contents.data)
    return rendered


def _is_plain(data: bytes, path: str) -> bool:
    """Whether it is shown unchanged. Other files have to be parsed first, whatever their names."""
    category = sniff(data, path).category
    return category not in {Category.PDF, Category.NOTEBOOK} and (category is not Category.TEXT or is_utf8(data))


def _result_fields(path: str, rendered: RenderedFile) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "path": path,
        "kind": rendered.kind.category.value,
        "content": rendered.content,
        "first_line": rendered.first_line,
        "line_count": rendered.line_count,
        "total_lines": rendered.total_lines,
        "truncated": rendered.truncated,
    }
    if rendered.note:
        facts["note"] = rendered.note
    if rendered.encoding is not None:
        facts["encoding"] = rendered.encoding
    return facts


READ = Tool(
    name="Read",
    description=(
        "Read a file: text with line numbers (2000 lines unless limit says otherwise), images, notebooks, PDF."
    ),
    arguments=ReadArguments,
    output=output_schema(
        ("note", "encoding"),
        path="string",
        kind="string",
        content="string",
        first_line="integer",
        line_count="integer",
        total_lines="integer",
        truncated="boolean",
        note="string",
        encoding="string",
    ),
    run=read,
    kind="read",
    # Plain files are read in microseconds; parsing a PDF or a notebook can take seconds.
    is_quick=lambda arguments: not arguments.file_path.lower().endswith((".pdf", ".ipynb")),
)

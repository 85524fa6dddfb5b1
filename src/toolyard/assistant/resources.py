"""Answers of threads as resources, to which truncated replies link. A client needs the thread's id to read one.

Listing returns nothing: the secrecy of the ids separates the threads of different clients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolyard.app.yard_options import ResourceTemplate
from toolyard.assistant.output import MARKDOWN, THREAD_SCHEME
from toolyard.core.calls import Result
from toolyard.core.errors import ValidationError
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Tool
from toolyard.tools.resources import LIST_RESOURCES, READ_RESOURCE, RESOURCE_TOOLS, ListArguments, ReadArguments

if TYPE_CHECKING:
    from toolyard.assistant.runtime import AssistantRuntime

_ANSWER_URI = re.compile(rf"{THREAD_SCHEME}([A-Za-z0-9_-]{{1,100}})/([0-9]{{1,6}})")
TEMPLATES = (
    ResourceTemplate("answer", f"{THREAD_SCHEME}{{continuation_id}}/{{turn}}", "An answer of a thread, whole"),
)


def resource_tools(runtime: AssistantRuntime) -> Mapping[str, Tool[Any]]:
    """Returns the tools that list and read resources."""

    def read_answer(arguments: ReadArguments, ctx: CallContext) -> Result:
        found = _ANSWER_URI.fullmatch(arguments.uri)
        if found is None:
            raise _unknown_uri_error("is not the URI of an answer")
        turns = runtime.thread_services(ctx).threads.read(found[1]).turns
        number = int(found[2])
        if not 1 <= number <= len(turns):
            raise _unknown_uri_error(f"names an answer that does not exist: the thread has {len(turns)}")
        return Result((), {"text": runtime.mask_secrets(turns[number - 1].answered.text), "media_type": MARKDOWN})

    def list_answers(arguments: ListArguments, ctx: CallContext) -> Result:
        del arguments, ctx
        return Result((), {"resources": []})

    return {
        LIST_RESOURCES: _resource_tool(LIST_RESOURCES, ListArguments, list_answers),
        READ_RESOURCE: _resource_tool(READ_RESOURCE, ReadArguments, read_answer),
    }


def _resource_tool(name: str, arguments: type[Any], run: Any) -> Tool[Any]:
    usual = RESOURCE_TOOLS[name]
    return Tool(name, "Read an answer of a thread.", arguments, usual.output, run, "read")


def _unknown_uri_error(what: str) -> ValidationError:
    return ValidationError.of("uri", what, hint=f"Use the URI of a link: {THREAD_SCHEME}<continuation_id>/<turn>.")

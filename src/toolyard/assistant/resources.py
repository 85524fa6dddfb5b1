"""Answers of threads as resources: what a capped reply links to. Whoever knows the thread's id may read it.

Nothing is listed: the ids of threads are what keeps one client's from another's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolyard.app.tool_provider import Template
from toolyard.assistant.output import MARKDOWN, SCHEME
from toolyard.core.calls import Result
from toolyard.core.errors import ValidationError
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Tool
from toolyard.tools.resources import LIST_RESOURCES, READ_RESOURCE, RESOURCE_TOOLS, ListArguments, ReadArguments

if TYPE_CHECKING:
    from toolyard.assistant.runtime import Desk

_ADDRESS = re.compile(rf"{SCHEME}([A-Za-z0-9_-]{{1,100}})/([0-9]{{1,6}})")
TEMPLATES = (Template("answer", f"{SCHEME}{{continuation_id}}/{{turn}}", "An answer of a thread, whole"),)


def resource_tools(desk: Desk) -> Mapping[str, Tool[Any]]:
    def read(arguments: ReadArguments, gate: Gate) -> Result:
        found = _ADDRESS.fullmatch(arguments.uri)
        if found is None:
            raise _unknown("is no address of an answer")
        turns = desk.threads(gate).threads.read(found[1]).turns
        number = int(found[2])
        if not 1 <= number <= len(turns):
            raise _unknown(f"names an answer that is not there: the thread has {len(turns)}")
        return Result((), {"text": desk.without_secrets(turns[number - 1].answered.text), "media_type": MARKDOWN})

    def listed(arguments: ListArguments, gate: Gate) -> Result:
        del arguments, gate
        return Result((), {"resources": []})

    return {
        LIST_RESOURCES: _served(LIST_RESOURCES, ListArguments, listed),
        READ_RESOURCE: _served(READ_RESOURCE, ReadArguments, read),
    }


def _served(name: str, arguments: type[Any], run: Any) -> Tool[Any]:
    usual = RESOURCE_TOOLS[name]
    return Tool(name, "Read an answer of a thread.", arguments, usual.output, run, "read")


def _unknown(what: str) -> ValidationError:
    return ValidationError.of("uri", what, hint=f"Use the address of a link: {SCHEME}<continuation_id>/<turn>.")

"""Builds the OpenAPI 3.1 document of the HTTP API from its catalogue. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from toolyard import __version__
from toolyard.transports.http.streaming_response import MEDIA_TYPE

_INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9._-]")  # not allowed in a component name
_SCHEMAS = "#/components/schemas/"
_ROOT_KEYS = frozenset({"$schema", "$id", "$anchor"})  # an embedded schema is not a document of its own
_STRING = {"type": "string"}
_BOOLEAN = {"type": "boolean"}


def openapi_document(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the document for a catalogue."""
    schemas: dict[str, Any] = dict(_COMPONENTS)
    variants: list[dict[str, str]] = []
    for number, tool in enumerate(tools):
        name = f"tool{number}.{_INVALID_NAME_CHARS.sub('_', tool['name'])}"
        schemas[f"{name}.args"] = _embed_schema(tool["input_schema"], f"{name}.args")
        schemas[f"{name}.structured"] = _embed_schema(tool["output_schema"], f"{name}.structured")
        schemas[name] = _object_schema(
            {"tool_name": {"const": tool["name"]}, "args": _ref(f"{name}.args")},
            *(("tool_name", "args") if tool["input_schema"].get("required") else ("tool_name",)),
            description=tool["description"],
            is_closed=True,
        )
        variants.append(_ref(name))
    schemas["Asked"] = {"oneOf": variants} if variants else {"not": {}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolyard",
            "version": __version__,
            "summary": "The tools of one workspace over plain HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}],
        "paths": {
            "/tools": {
                "get": _get_operation("listTools", "The tools, with their schemas", "application/json", _ref("Tools"))
            },
            "/execute": {"post": _EXECUTE_OPERATION},
            "/openapi.json": {
                "get": _get_operation("describe", "This description", "application/json", {"type": "object"})
            },
            "/docs": {"get": _get_operation("read", "The tools as a page to read", "text/html", _STRING)},
        },
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def _embed_schema(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Returns a schema for embedding at `place`, with its local references rebased."""
    members = {key: value for key, value in schema.items() if key not in _ROOT_KEYS}
    return cast("dict[str, Any]", _rebase_refs(members, f"{_SCHEMAS}{place}"))


def _rebase_refs(node: object, place: str) -> object:
    if isinstance(node, dict):
        return {
            key: place + value[1:] if key == "$ref" and _is_local_ref(value) else _rebase_refs(value, place)
            for key, value in cast("dict[str, Any]", node).items()
        }
    if isinstance(node, list):
        return [_rebase_refs(item, place) for item in cast("list[object]", node)]
    return node


def _is_local_ref(reference: object) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{name}"}


def _object_schema(
    properties: Mapping[str, Any], *required: str, description: str = "", is_closed: bool = False
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "required": list(required)}
    if is_closed:
        schema["additionalProperties"] = False
    return {**schema, "description": description} if description else schema


def _line_schema(
    kind: str, properties: Mapping[str, Any], required: Iterable[str], description: str
) -> dict[str, Any]:
    return _object_schema({"type": {"const": kind}, **properties}, "type", *required, description=description)


def _content(media_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {media_type: {"schema": dict(schema)}}


def _refusal(description: str) -> dict[str, Any]:
    return {"description": description, "content": _content("application/json", _ref("Refusal"))}


def _get_operation(name: str, summary: str, media_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"description": summary, "content": _content(media_type, schema)}
    return {"operationId": name, "summary": summary, "responses": {"200": answer, **_COMMON_RESPONSES}}


_COMPONENTS: dict[str, Any] = {
    "Progress": _line_schema(
        "progress",
        {"done": {"type": "number"}, "total": {"type": ["number", "null"]}, "message": _STRING},
        ("done", "total", "message"),
        "How far a long call has come, in seconds.",
    ),
    "Output": _line_schema(
        "output",
        {"stream": {"enum": ["stdout", "stderr"]}, "text": _STRING, "dropped": {"type": "integer"}},
        ("stream", "text"),
        "What a command prints, as it comes. `dropped` bytes were left out here, because they were not read in time.",
    ),
    "Result": _line_schema(
        "result",
        {"content": {"type": "array", "items": {"type": "object"}}, "structured": {"type": "object"}},
        ("content", "structured"),
        "The last line of a call that succeeded: for a reader, and for a program.",
    ),
    "Failure": _line_schema("error", {"error": _ref("Error")}, ("error",), "The last line of any other call."),
    "Error": _object_schema(
        {
            "code": {"type": "integer"},
            "kind": {"enum": ["security", "validation", "tool", "system", "config"]},
            "message": _STRING,
            "hint": _STRING,
            "retryable": _BOOLEAN,
            "ran": {**_BOOLEAN, "description": "false: the call was refused, and nothing was done."},
            "validation_errors": {
                "type": "array",
                "items": _object_schema({"field": _STRING, "error": _STRING}, "field", "error"),
            },
        },
        *("code", "kind", "message", "hint", "retryable"),
    ),
    "Refusal": _object_schema({"error": _ref("Error")}, "error"),
    "Tools": _object_schema(
        {
            "tools": {
                "type": "array",
                "items": _object_schema(
                    {
                        **dict.fromkeys(("name", "title", "description"), _STRING),
                        **{name: {"type": "object"} for name in ("input_schema", "output_schema")},
                        **dict.fromkeys(("read_only", "destructive", "idempotent"), _BOOLEAN),
                    },
                    *("name", "title", "description", "input_schema", "output_schema"),
                    *("read_only", "destructive", "idempotent"),
                ),
            }
        },
        "tools",
    ),
}
_COMMON_RESPONSES: dict[str, Any] = {
    "401": _refusal("The bearer token is missing or wrong."),
    "403": _refusal("The Origin is not ours."),
    "405": _refusal("The path takes another method."),
    "421": _refusal("The Host is not ours."),
}
_EXECUTE_OPERATION: dict[str, Any] = {
    "operationId": "executeTool",
    "summary": "Run one tool",
    "description": (
        "Answered while the tool runs: one JSON object a line, the last of them a result or an error. "
        "A caller that goes away cancels the call."
    ),
    "requestBody": {"required": True, "content": _content("application/json", _ref("Asked"))},
    "responses": {
        "200": {
            "description": "Lines, each of them one of these",
            "content": _content(
                MEDIA_TYPE, {"oneOf": [_ref(name) for name in ("Progress", "Output", "Result", "Failure")]}
            ),
        },
        "400": _refusal("The body is not a request to run a tool."),
        "404": _refusal("There is no such tool."),
        "413": _refusal("The body is too large."),
        "415": _refusal("The body is not application/json."),
        "503": _refusal("Too many calls are under way; `Retry-After` says when to try again."),
        **_COMMON_RESPONSES,
    },
}

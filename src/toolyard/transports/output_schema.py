"""Output schemas as clients are given them: with room for the structured content of a failed call.

The protocol holds only successful results to a tool's output schema, and so do the Python SDK and version 2 of the
TypeScript SDK. Version 1 of the latter checks the structured content of every result: an error that does not fit the
schema would reach its caller as "does not match the tool's output schema" and nothing else.
"""

from __future__ import annotations

from typing import Any

ERROR_KEY = "error"
"""The member of structured content that describes a failure."""
_RELAXABLE_KEYWORDS = frozenset(
    {"type", "properties", "required", "title", "description", "$schema", "$defs", "definitions"}
)
"""Keywords of a schema that admits an error once its members are not required."""
_AT_ROOT = ("$schema", "$defs", "definitions")  # references name them by their place
_FAILED_SCHEMA: dict[str, Any] = {"required": [ERROR_KEY]}


def schema_admitting_errors(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, satisfied by `{"error": {...}}` too. Everything that satisfied it before still does."""
    if not schema.keys() <= _RELAXABLE_KEYWORDS:
        at_root = {key: schema[key] for key in _AT_ROOT if key in schema}
        success = {key: value for key, value in schema.items() if key not in at_root}
        return {**at_root, "type": "object", "anyOf": [success, _FAILED_SCHEMA]}
    # A choice between two lists of required members would be exact, and cost every tool a dozen tokens.
    admitted = {key: value for key, value in schema.items() if key != "required"}
    if ERROR_KEY in schema.get("properties", {}):
        properties = schema["properties"]
        admitted["properties"] = {**properties, ERROR_KEY: {"anyOf": [properties[ERROR_KEY], {"type": "object"}]}}
    return admitted

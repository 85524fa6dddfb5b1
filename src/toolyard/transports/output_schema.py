"""Output schemas as clients get them: they also admit the structured content of a failed call.

The protocol, the Python SDK and version 2 of the TypeScript SDK apply a tool's output schema only to successful
results. Version 1 of the latter checks every result: an error that does not match would reach its caller only as
"does not match the tool's output schema".
"""

from __future__ import annotations

from typing import Any

ERROR_KEY = "error"
"""Member of structured content that describes a failure."""
_RELAXABLE_KEYWORDS = frozenset(
    {"type", "properties", "required", "title", "description", "$schema", "$defs", "definitions"}
)
"""Keywords of a schema that admits an error once its members are optional."""
_AT_ROOT = ("$schema", "$defs", "definitions")  # references name them by their path
_FAILED_SCHEMA: dict[str, Any] = {"required": [ERROR_KEY]}


def schema_admitting_errors(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema extended to accept `{"error": {...}}`. Everything that it accepted stays valid."""
    if not schema.keys() <= _RELAXABLE_KEYWORDS:
        at_root = {key: schema[key] for key in _AT_ROOT if key in schema}
        success = {key: value for key, value in schema.items() if key not in at_root}
        return {**at_root, "type": "object", "anyOf": [success, _FAILED_SCHEMA]}
    # A choice between two lists of required members would be exact, but cost every tool a dozen tokens.
    admitted = {key: value for key, value in schema.items() if key != "required"}
    if ERROR_KEY in schema.get("properties", {}):
        properties = schema["properties"]
        admitted["properties"] = {**properties, ERROR_KEY: {"anyOf": [properties[ERROR_KEY], {"type": "object"}]}}
    return admitted

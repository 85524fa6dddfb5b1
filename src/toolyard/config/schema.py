"""Generates the JSON Schema of the configuration file, for completion, descriptions and validation in editors.

It is generated from the models, so that each key is described once. This module adds what the loader accepts beyond
the plain types: key aliases, variables in place of values, servers as a list or by name, and empty sections. The
schema is weaker than the loader where a rule involves several keys (`command` or `url`); it accepts everything that
loads, except unusual spellings of a backend's type. It uses Draft 7, which every editor supports.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final, cast

from toolyard.config.backends import accepted_spellings
from toolyard.config.key_aliases import KEY_ALIASES, OAUTH_KEY_ALIASES
from toolyard.config.models import Backend, Config
from toolyard.config.section import Section
from toolyard.config.server_entry import EVERY_SERVER, OAuth, ServerEntry

SchemaNode = dict[str, Any]

_DEFINITIONS: Final = "#/$defs/"
_VARIABLE: Final = "Variable"
_NULL: Final = {"type": "null"}
_EXPANDED_AT_START: Final = (ServerEntry, OAuth)
"""Sections whose variables are expanded when a server is started, and only in text."""
_OTHER_TRANSPORTS: Final = ("http", "streamable_http", "streamableHttp", "local", "remote")


def config_schema() -> SchemaNode:
    """Returns the schema of the configuration file."""
    plain = Config.model_json_schema()
    names = cast("SchemaNode", plain.pop("$defs"))
    models = {model.__name__: model for model in _all_sections(Section)}
    defined = {name: _definition(node, models.get(name)) for name, node in names.items()}
    defined[_VARIABLE] = {
        "type": "string",
        "pattern": r"\$\{",
        "description": "`${VAR}` or `${VAR:-default}`, taken from the environment.",
    }
    _add_server_spellings(defined)
    _add_backend_spellings(defined[Backend.__name__])
    top = _definition(plain, Config)
    _add_file_spellings(top)
    for node in (top, *defined.values()):
        _describe_sections(node, defined)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Toolyard configuration",
        **top,
        "$defs": dict(sorted(defined.items())),
    }


def schema_text() -> str:
    """Returns the schema as published, as JSON text."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def _all_sections(section: type[Section]) -> Iterator[type[Section]]:
    for model in section.__subclasses__():
        yield model
        yield from _all_sections(model)


def _definition(node: SchemaNode, model: type[Section] | None) -> SchemaNode:
    kept = {key: value for key, value in node.items() if key != "title"}
    if model is None:
        return _allow_variables(kept)  # an enumeration
    descriptions = _field_docstrings(model)
    takes_numbers = bool(model.model_config.get("coerce_numbers_to_str"))
    properties = {
        key: _property(value, descriptions.get(key, ""), model, takes_numbers=takes_numbers)
        for key, value in cast("dict[str, SchemaNode]", kept["properties"]).items()
        if key not in model.internal
    }
    return {**kept, "properties": properties}


def _property(node: SchemaNode, description: str, model: type[Section], *, takes_numbers: bool) -> SchemaNode:
    default = node.get("default")
    shape = {key: value for key, value in node.items() if key not in {"title", "default"}}
    if takes_numbers:
        shape = _allow_numbers(shape)
    if model not in _EXPANDED_AT_START:
        shape = _allow_variables(shape)
    if "$ref" in shape:
        shape = {"anyOf": [shape, _NULL]} if isinstance(default, Mapping) else {"allOf": [shape]}
    shape = _allow_list_forms(shape)
    if description:
        shape["description"] = description
    if default not in (None, [], "") and not isinstance(default, Mapping):
        shape["default"] = default
    return shape


def _allow_variables(node: Any) -> Any:
    """Returns the schema with a variable also accepted for every number, boolean and enumeration."""
    if isinstance(node, list):
        return [_allow_variables(item) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    keys = dict(cast("SchemaNode", node))
    if "enum" in keys or keys.get("type") in ("integer", "number", "boolean"):
        outside = {key: keys.pop(key) for key in ("description",) if key in keys}
        return {"anyOf": [keys, {"$ref": f"{_DEFINITIONS}{_VARIABLE}"}], **outside}
    return {key: _allow_variables(value) for key, value in keys.items()}


def _allow_numbers(node: Any) -> Any:
    if isinstance(node, list):
        return [_allow_numbers(item) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    keys = dict(cast("SchemaNode", node))
    if keys.get("type") == "string" and "enum" not in keys:
        return {**keys, "type": ["string", "number", "boolean"]}
    return {key: _allow_numbers(value) for key, value in keys.items()}


def _allow_list_forms(shape: SchemaNode) -> SchemaNode:
    """Accepts servers as a list, a map by name or `*`, and custom tools as a list or a single name."""
    listed = json.dumps(shape.get("items"))
    if f'"{_DEFINITIONS}{ServerEntry.__name__}"' in listed:
        entry: SchemaNode = {"$ref": f"{_DEFINITIONS}{ServerEntry.__name__}"}
        named = {"allOf": [entry], "required": ["name"]}
        return {
            "anyOf": [
                {"type": "array", "items": {"anyOf": [{"type": "string"}, named]}},
                {"type": "object", "additionalProperties": {"anyOf": [entry, _NULL]}},
                {"const": EVERY_SERVER},
                _NULL,
            ]
        }
    if "CustomToolSource" in listed:
        return {"anyOf": [shape, {"type": "string"}]}
    return shape


def _add_server_spellings(defined: dict[str, SchemaNode]) -> None:
    entry, oauth = defined[ServerEntry.__name__], defined[OAuth.__name__]
    entry.pop("required")  # in a map, the name is the key
    keys: dict[str, SchemaNode] = entry["properties"]
    keys["type"]["anyOf"][0]["enum"] += _OTHER_TRANSPORTS
    keys["oauth"]["anyOf"].append({"type": "boolean"})
    keys["enabled"] = {"type": "boolean", "description": "The opposite of `disabled`."}
    keys.update(_alias_schemas(keys, KEY_ALIASES))
    others: dict[str, SchemaNode] = oauth["properties"]
    others["scopes"] = {"anyOf": [others["scopes"], {"type": "string"}]}
    others.update(_alias_schemas(others, OAUTH_KEY_ALIASES))


def _alias_schemas(keys: Mapping[str, SchemaNode], spellings: Mapping[str, str]) -> dict[str, SchemaNode]:
    return {
        other: {**keys[usual], "description": f"Another spelling of `{usual}`."}
        for other, usual in spellings.items()
        if other not in keys
    }


def _add_backend_spellings(backend: SchemaNode) -> None:
    keys: dict[str, SchemaNode] = backend["properties"]
    keys["type"]["anyOf"][0] = _allow_variables({"enum": [*accepted_spellings()]})
    words = keys["thinking"]["anyOf"][0]["anyOf"][0]
    keys["thinking"]["anyOf"][0]["anyOf"][0] = {"enum": [*words["enum"], False]}  # what YAML makes of `off`


def _add_file_spellings(top: SchemaNode) -> None:
    keys: dict[str, SchemaNode] = top["properties"]
    for key, shape in keys.items():
        if _NULL not in shape.get("anyOf", []):  # a key without a value means the defaults
            description = {"description": shape.pop("description")} if "description" in shape else {}
            keys[key] = {"anyOf": [shape, _NULL], **description}
    keys["massgen"] = {**keys["toolyard"], "description": "Another spelling of `toolyard`."}
    only = {"anyOf": [{"$ref": f"{_DEFINITIONS}Agent"}, _NULL]}
    keys["agent"] = {**only, "description": "The only agent, in place of the list `agents`."}
    top["not"] = {"anyOf": [{"required": ["toolyard", "massgen"]}, {"required": ["agents", "agent"]}]}


def _describe_sections(node: SchemaNode, defined: Mapping[str, SchemaNode]) -> None:
    """Copies the description of a section to the keys that refer to it: editors show the key's description."""
    for shape in cast("dict[str, SchemaNode]", node.get("properties", {})).values():
        parts = cast("list[SchemaNode]", shape.get("anyOf") or shape.get("allOf") or [{}])
        leads_to = str(parts[0].get("$ref", ""))
        description = defined.get(leads_to.removeprefix(_DEFINITIONS), {}).get("description")
        if description is not None:
            shape.setdefault("description", description)


@cache
def _field_docstrings(model: type[Section]) -> Mapping[str, str]:
    """Returns the docstring below each field, read from the source so that normal start-up does not pay for it."""
    tree = ast.parse(inspect.getsource(sys.modules[model.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == model.__name__)
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(inspect.cleandoc(text.value).split())
    return found

"""The configuration file as a JSON Schema, for editors: completion, descriptions, and typos underlined.

Made from the models, so that a key is described once. What the loader accepts beyond the plain types is put in here:
other spellings, variables in the place of values, servers as a list or by name, sections left empty. The schema says
less than the loader where a rule needs more than one key (`command` or `url`); it refuses nothing that loads, but for
unusual spellings of a backend's type. Draft 7, which every editor understands.
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

from toolyard.config.backends import usual_spellings
from toolyard.config.key_aliases import KEYS, OAUTH_KEYS
from toolyard.config.models import Backend, Config
from toolyard.config.section import Section
from toolyard.config.server_entry import EVERY_SERVER, OAuth, ServerEntry

Node = dict[str, Any]

_DEFINITIONS: Final = "#/$defs/"
_VARIABLE: Final = "Variable"
_NULL: Final = {"type": "null"}
_STARTED_LATER: Final = (ServerEntry, OAuth)
"""Their variables are put in when a server is started, and only into text."""
_OTHER_TRANSPORTS: Final = ("http", "streamable_http", "streamableHttp", "local", "remote")


def config_schema() -> Node:
    """The whole schema."""
    plain = Config.model_json_schema()
    names = cast("Node", plain.pop("$defs"))
    models = {model.__name__: model for model in _sections(Section)}
    defined = {name: _definition(node, models.get(name)) for name, node in names.items()}
    defined[_VARIABLE] = {
        "type": "string",
        "pattern": r"\$\{",
        "description": "`${VAR}` or `${VAR:-default}`, taken from the environment.",
    }
    _as_servers_are_written(defined)
    _as_backends_are_written(defined[Backend.__name__])
    top = _definition(plain, Config)
    _as_files_are_written(top)
    for node in (top, *defined.values()):
        _describe_sections(node, defined)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Toolyard configuration",
        **top,
        "$defs": dict(sorted(defined.items())),
    }


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    for model in section.__subclasses__():
        yield model
        yield from _sections(model)


def _definition(node: Node, model: type[Section] | None) -> Node:
    kept = {key: value for key, value in node.items() if key != "title"}
    if model is None:
        return _or_variable(kept)  # the words of an enumeration
    told = _docstrings(model)
    takes_numbers = bool(model.model_config.get("coerce_numbers_to_str"))
    properties = {
        key: _property(value, told.get(key, ""), model, takes_numbers=takes_numbers)
        for key, value in cast("dict[str, Node]", kept["properties"]).items()
        if key not in model.internal
    }
    return {**kept, "properties": properties}


def _property(node: Node, told: str, model: type[Section], *, takes_numbers: bool) -> Node:
    default = node.get("default")
    shape = {key: value for key, value in node.items() if key not in {"title", "default"}}
    if takes_numbers:
        shape = _with_numbers(shape)
    if model not in _STARTED_LATER:
        shape = _or_variable(shape)
    if "$ref" in shape:
        shape = {"anyOf": [shape, _NULL]} if isinstance(default, Mapping) else {"allOf": [shape]}
    shape = _as_lists_are_written(shape)
    if told:
        shape["description"] = told
    if default not in (None, [], "") and not isinstance(default, Mapping):
        shape["default"] = default
    return shape


def _or_variable(node: Any) -> Any:
    """The same, and a variable wherever a number, a yes or no, or one of some words is expected."""
    if isinstance(node, list):
        return [_or_variable(item) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    keys = dict(cast("Node", node))
    if "enum" in keys or keys.get("type") in ("integer", "number", "boolean"):
        outside = {key: keys.pop(key) for key in ("description",) if key in keys}
        return {"anyOf": [keys, {"$ref": f"{_DEFINITIONS}{_VARIABLE}"}], **outside}
    return {key: _or_variable(value) for key, value in keys.items()}


def _with_numbers(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_numbers(item) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    keys = dict(cast("Node", node))
    if keys.get("type") == "string" and "enum" not in keys:
        return {**keys, "type": ["string", "number", "boolean"]}
    return {key: _with_numbers(value) for key, value in keys.items()}


def _as_lists_are_written(shape: Node) -> Node:
    """Servers are a list, a map by name, or all; custom tools a list, or one."""
    listed = json.dumps(shape.get("items"))
    if f'"{_DEFINITIONS}{ServerEntry.__name__}"' in listed:
        entry: Node = {"$ref": f"{_DEFINITIONS}{ServerEntry.__name__}"}
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


def _as_servers_are_written(defined: dict[str, Node]) -> None:
    entry, oauth = defined[ServerEntry.__name__], defined[OAuth.__name__]
    entry.pop("required")  # a map has the name as its key
    keys: dict[str, Node] = entry["properties"]
    keys["type"]["anyOf"][0]["enum"] += _OTHER_TRANSPORTS
    keys["oauth"]["anyOf"].append({"type": "boolean"})
    keys["enabled"] = {"type": "boolean", "description": "The opposite of `disabled`."}
    keys.update(_respelled(keys, KEYS))
    others: dict[str, Node] = oauth["properties"]
    others["scopes"] = {"anyOf": [others["scopes"], {"type": "string"}]}
    others.update(_respelled(others, OAUTH_KEYS))


def _respelled(keys: Mapping[str, Node], spellings: Mapping[str, str]) -> dict[str, Node]:
    return {
        other: {**keys[usual], "description": f"Another spelling of `{usual}`."}
        for other, usual in spellings.items()
        if other not in keys
    }


def _as_backends_are_written(backend: Node) -> None:
    keys: dict[str, Node] = backend["properties"]
    keys["type"]["anyOf"][0] = _or_variable({"enum": [*usual_spellings()]})
    words = keys["thinking"]["anyOf"][0]["anyOf"][0]
    keys["thinking"]["anyOf"][0]["anyOf"][0] = {"enum": [*words["enum"], False]}  # what YAML makes of `off`


def _as_files_are_written(top: Node) -> None:
    keys: dict[str, Node] = top["properties"]
    for key, shape in keys.items():
        if _NULL not in shape.get("anyOf", []):  # a key with nothing behind it means its defaults
            told = {"description": shape.pop("description")} if "description" in shape else {}
            keys[key] = {"anyOf": [shape, _NULL], **told}
    keys["massgen"] = {**keys["toolyard"], "description": "Another spelling of `toolyard`."}
    only = {"anyOf": [{"$ref": f"{_DEFINITIONS}Agent"}, _NULL]}
    keys["agent"] = {**only, "description": "The only agent, in place of the list `agents`."}
    top["not"] = {"anyOf": [{"required": ["toolyard", "massgen"]}, {"required": ["agents", "agent"]}]}


def _describe_sections(node: Node, defined: Mapping[str, Node]) -> None:
    """A key that leads to a section is described as the section is: editors show what stands at the key."""
    for shape in cast("dict[str, Node]", node.get("properties", {})).values():
        parts = cast("list[Node]", shape.get("anyOf") or shape.get("allOf") or [{}])
        leads_to = str(parts[0].get("$ref", ""))
        told = defined.get(leads_to.removeprefix(_DEFINITIONS), {}).get("description")
        if told is not None:
            shape.setdefault("description", told)


@cache
def _docstrings(model: type[Section]) -> Mapping[str, str]:
    """What the text below each field says. Read from the source here, so that no start of a command pays for it."""
    tree = ast.parse(inspect.getsource(sys.modules[model.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == model.__name__)
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(inspect.cleandoc(text.value).split())
    return found

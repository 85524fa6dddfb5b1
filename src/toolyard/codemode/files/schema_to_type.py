"""Converts a JSON Schema to the Python type of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolyard.codemode.files.constraints import annotated_description
from toolyard.codemode.files.literals import python_literal
from toolyard.codemode.files.python_types import (
    NEVER,
    SCALAR_TYPES,
    ObjectField,
    PythonType,
    TypeDefinitions,
    dict_of,
    list_of,
    tuple_of,
    union_of,
)
from toolyard.codemode.files.schemas import (
    Schema,
    as_list,
    as_schema,
    flatten_schema,
    properties,
    required_names,
    resolve_pointer,
    text_of,
    variants,
)

_MAX_DEPTH = 24
"""Levels of nesting that get types. Deeper values are Any."""
_MAX_SCHEMAS = 20_000
"""Schemas that are converted for one tool, to bound the time."""
_MAX_VALUES = 300
"""Members of a Literal. A longer enum becomes its type."""
_MAX_ALTERNATIVES = 8
"""Alternatives that are merged with the fields they share. With more, only the shared fields are kept."""

_LONGEST_HINT = 30

_OBJECT_KEYS = frozenset({"properties", "additionalProperties", "patternProperties", "required", "propertyNames"})
_TYPE_KEYS = frozenset({"type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf"})
_ARRAY_KEYS = frozenset({"items", "prefixItems"})


class SchemaTyper:
    """Converts the schemas of one document, which its `$ref`s point into. Classes are added to `definitions`."""

    def __init__(self, root: Any, definitions: TypeDefinitions, *, is_output: bool = False) -> None:
        self._root = root
        self._definitions = definitions
        self._is_output = is_output
        self._finished: dict[str, PythonType] = {}
        self._pending: dict[str, str] = {}
        self._aliased: set[str] = set()
        self._schema_count = 0

    def type_of(self, schema: Any, hint: str, parent: str = "", depth: int = 0) -> PythonType:
        """Returns the type of a schema's values."""
        self._schema_count += 1
        if schema is False:
            self._definitions.typing_names.add("Never")
            return NEVER
        if not isinstance(schema, (dict, Mapping)) or depth > _MAX_DEPTH or self._schema_count > _MAX_SCHEMAS:
            return self._definitions.any_type()
        known = cast("Schema", schema)
        pointer = known.get("$ref")
        if isinstance(pointer, str):
            return self._referenced_type(pointer, hint, parent, depth)
        made = self._schema_type(known, hint, parent, depth)
        return union_of([made, SCALAR_TYPES["null"]]) if known.get("nullable") is True else made

    def _referenced_type(self, pointer: str, hint: str, parent: str, depth: int) -> PythonType:
        if pointer in self._finished:
            return self._finished[pointer]
        if pointer in self._pending:
            self._aliased.add(pointer)
            return PythonType((self._pending[pointer],))
        target = resolve_pointer(self._root, pointer)
        if target is None:
            return self._definitions.any_type()
        own = pointer.rpartition("/")[2]
        hint = own if "/$defs/" in pointer or "/definitions/" in pointer else hint
        name = self._pending[pointer] = self._definitions.reserve(hint or own, parent)
        flattened = flatten_schema(self._root, target)
        if _is_object(flattened) and not variants(flattened) and not self._definitions.is_full:
            made = self._object_type(flattened, name, depth + 1)
        else:
            made = self.type_of(target, hint, parent, depth + 1)
            if pointer in self._aliased:
                made = self._definitions.write_alias(name, made)
            else:
                self._definitions.names.discard(name)
        del self._pending[pointer]
        self._finished[pointer] = made
        return made

    def _schema_type(self, schema: Schema, hint: str, parent: str, depth: int) -> PythonType:
        if "const" in schema:
            return self._literal_type([schema["const"]])
        values = as_list(schema.get("enum"))
        if values:
            return self._literal_type(values)
        if as_list(schema.get("allOf")):
            schema = flatten_schema(self._root, schema)
        options = variants(schema)
        if options:
            return self._union_type(schema, options, hint, parent, depth)
        kinds = schema.get("type")
        if isinstance(kinds, str):
            return self._kind_type(kinds, schema, hint, parent, depth)
        if as_list(kinds):
            return union_of([self._kind_type(str(kind), schema, hint, parent, depth) for kind in as_list(kinds)[:16]])
        if not _OBJECT_KEYS.isdisjoint(schema):
            return self._kind_type("object", schema, hint, parent, depth)
        if not _ARRAY_KEYS.isdisjoint(schema):
            return self._array_type(schema, hint, parent, depth)
        return self._definitions.any_type()

    def _kind_type(self, kind: str, schema: Schema, hint: str, parent: str, depth: int) -> PythonType:
        if kind in SCALAR_TYPES:
            return SCALAR_TYPES[kind]
        if kind == "array":
            return self._array_type(schema, hint, parent, depth)
        if kind != "object":
            return self._definitions.any_type()
        if _is_object(schema) and not self._definitions.is_full:
            return self._object_type(schema, self._definitions.reserve(hint, parent), depth)
        return dict_of(self._mapping_value_type(schema, hint, parent, depth))

    def _literal_type(self, values: Sequence[Any]) -> PythonType:
        """Returns a Literal of the values that can be one, with the types of the others."""
        literals: list[str] = []
        others: list[PythonType] = []
        for value in values:
            text = None if isinstance(value, float) or len(values) > _MAX_VALUES else python_literal(value)
            if value is None:
                others.append(SCALAR_TYPES["null"])
            elif text is None:
                others.append(self._type_of_value(value))
            else:
                literals.append(text)
        if literals:
            self._definitions.typing_names.add("Literal")
            others.append(PythonType(values=tuple(dict.fromkeys(literals))))
        return union_of(others)

    def _type_of_value(self, value: Any) -> PythonType:
        for kind, python in (("boolean", bool), ("string", str), ("integer", int), ("number", float)):
            if isinstance(value, python):
                return SCALAR_TYPES[kind]
        made = list_of if isinstance(value, list) else dict_of
        return made(self._definitions.any_type())

    def _union_type(self, schema: Schema, options: Sequence[Any], hint: str, parent: str, depth: int) -> PythonType:
        """Returns a union. Alternatives of an object with its own fields get those fields as well."""
        base = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf"}}
        if not _is_object(base):
            kinds = [base.get("type"), *as_list(base.get("type"))]
            several = len(options) > 1
            return union_of(
                [
                    self.type_of(
                        _with_kind(option, kinds), _own_hint(option, hint) if several else hint, parent, depth + 1
                    )
                    for option in options
                ]
            )
        whole = [flatten_schema(self._root, option) for option in options]
        if len(whole) > _MAX_ALTERNATIVES or not any(properties(option) for option in whole):
            return self._schema_type(base, hint, parent, depth)
        return union_of(
            [self.type_of({"allOf": [option, base]}, _own_hint(option, hint), parent, depth + 1) for option in whole],
        )

    def _array_type(self, schema: Schema, hint: str, parent: str, depth: int) -> PythonType:
        items = schema.get("items")
        firsts = as_list(schema.get("prefixItems")) or as_list(items)
        if firsts and len(firsts) <= _MAX_ALTERNATIVES * 2:
            made = [self.type_of(item, f"{hint} {place + 1}", parent, depth + 1) for place, item in enumerate(firsts)]
            if not isinstance(items, Mapping):
                return tuple_of(made)
            return list_of(union_of([*made, self.type_of(items, f"{hint} item", parent, depth + 1)]))
        if items is None or isinstance(items, (bool, list)):
            return list_of(self._definitions.any_type())
        return list_of(self.type_of(items, f"{hint} item", parent, depth + 1))

    def _object_type(self, schema: Schema, name: str, depth: int) -> PythonType:
        needed = required_names(schema)
        fields: list[ObjectField] = []
        for key, inner in properties(schema).items():
            made = self.type_of(inner, key, name, depth + 1)
            fields.append(ObjectField(key, made, key in needed, annotated_description(inner)))
        known = properties(schema)
        fields += [
            ObjectField(key, self._definitions.any_type(), required=True) for key in needed if key not in known
        ]
        made = self._definitions.write_object(name, fields)
        if self._is_output or schema.get("additionalProperties") in (None, False):
            return made
        return union_of([made, dict_of(self._definitions.any_type())])

    def _mapping_value_type(self, schema: Schema, hint: str, parent: str, depth: int) -> PythonType:
        """Returns the value type of an object that names no keys."""
        found = list(as_schema(schema.get("patternProperties")).values())
        rest = schema.get("additionalProperties")
        if isinstance(rest, Mapping):
            found.append(cast("Schema", rest))
        if not found:
            return self._definitions.any_type()
        return union_of(
            [self.type_of(inner, f"{hint} value", parent, depth + 1) for inner in found[:_MAX_ALTERNATIVES]]
        )


def _is_object(schema: Schema) -> bool:
    """Whether the schema is an object that names its keys."""
    kind = schema.get("type")
    if not (kind is None or kind == "object" or "object" in as_list(kind)):
        return False
    return bool(properties(schema)) or (bool(required_names(schema)) and kind == "object")


def _own_hint(option: Any, hint: str) -> str:
    """Returns a name for one of several objects: its distinguishing value (`{"type": "uri"}`), or its title."""
    known = as_schema(option)
    for inner in properties(known).values():
        value = as_schema(inner).get("const", next(iter(as_list(as_schema(inner).get("enum"))), None))
        if (
            isinstance(value, str)
            and 0 < len(value) <= _LONGEST_HINT
            and len(as_list(as_schema(inner).get("enum"))) < 2
        ):
            return f"{value} {hint}"
    title = text_of(known, "title")
    return title if 0 < len(title) <= _LONGEST_HINT else hint


def _with_kind(option: Any, kinds: Sequence[Any]) -> Any:
    """Returns an alternative with the type of the surrounding schema, if it has none itself."""
    kind = next((one for one in kinds if isinstance(one, str)), None)
    if kind is None or not isinstance(option, Mapping):
        return option
    known = cast("Schema", option)
    return known if not _TYPE_KEYS.isdisjoint(known) else {**known, "type": kind}

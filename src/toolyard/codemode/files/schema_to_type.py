"""From a JSON Schema to the Python type of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolyard.codemode.files.constraints import note
from toolyard.codemode.files.literals import literal
from toolyard.codemode.files.python_types import (
    NEVER,
    PLAIN,
    Definitions,
    Field,
    Type,
    dict_of,
    list_of,
    one_of,
    tuple_of,
)
from toolyard.codemode.files.schemas import (
    Schema,
    as_list,
    as_schema,
    flat,
    properties,
    required,
    resolve,
    text_of,
    variants,
)

_DEEPEST = 24
"""Levels of nesting that get types. What lies deeper is Any."""
_MOST_SCHEMAS = 20_000
"""Schemas looked at for one tool, so that no schema can make this take long."""
_MOST_VALUES = 300
"""Members of a Literal. Of a longer enum only the type is told."""
_MOST_ALTERNATIVES = 8
"""Alternatives that are each told with the fields they share. Of more, the shared fields are told."""

_LONGEST_HINT = 30

_OBJECT_KEYS = frozenset({"properties", "additionalProperties", "patternProperties", "required", "propertyNames"})
_TELLS_TYPE = frozenset({"type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf"})
_ARRAY_KEYS = frozenset({"items", "prefixItems"})


class Typer:
    """Types the schemas of one document, whose `$ref`s point into it. The classes go to `definitions`."""

    def __init__(self, root: Any, definitions: Definitions, *, reads: bool = False) -> None:
        self._root = root
        self._definitions = definitions
        self._reads = reads
        self._done: dict[str, Type] = {}
        self._pending: dict[str, str] = {}
        self._aliased: set[str] = set()
        self._looked_at = 0

    def type_of(self, schema: Any, hint: str, parent: str = "", depth: int = 0) -> Type:
        self._looked_at += 1
        if schema is False:
            self._definitions.uses.add("Never")
            return NEVER
        if not isinstance(schema, (dict, Mapping)) or depth > _DEEPEST or self._looked_at > _MOST_SCHEMAS:
            return self._definitions.any()
        known = cast("Schema", schema)
        pointer = known.get("$ref")
        if isinstance(pointer, str):
            return self._referred(pointer, hint, parent, depth)
        made = self._of_schema(known, hint, parent, depth)
        return one_of([made, PLAIN["null"]]) if known.get("nullable") is True else made

    def _referred(self, pointer: str, hint: str, parent: str, depth: int) -> Type:
        if pointer in self._done:
            return self._done[pointer]
        if pointer in self._pending:
            self._aliased.add(pointer)
            return Type((self._pending[pointer],))
        target = resolve(self._root, pointer)
        if target is None:
            return self._definitions.any()
        own = pointer.rpartition("/")[2]
        hint = own if "/$defs/" in pointer or "/definitions/" in pointer else hint
        name = self._pending[pointer] = self._definitions.reserve(hint or own, parent)
        flattened = flat(self._root, target)
        if _is_object(flattened) and not variants(flattened) and not self._definitions.is_full:
            made = self._object(flattened, name, depth + 1)
        else:
            made = self.type_of(target, hint, parent, depth + 1)
            if pointer in self._aliased:
                made = self._definitions.write_alias(name, made)
            else:
                self._definitions.names.discard(name)
        del self._pending[pointer]
        self._done[pointer] = made
        return made

    def _of_schema(self, schema: Schema, hint: str, parent: str, depth: int) -> Type:
        if "const" in schema:
            return self._values([schema["const"]])
        values = as_list(schema.get("enum"))
        if values:
            return self._values(values)
        if as_list(schema.get("allOf")):
            schema = flat(self._root, schema)
        options = variants(schema)
        if options:
            return self._alternatives(schema, options, hint, parent, depth)
        kinds = schema.get("type")
        if isinstance(kinds, str):
            return self._of_kind(kinds, schema, hint, parent, depth)
        if as_list(kinds):
            return one_of([self._of_kind(str(kind), schema, hint, parent, depth) for kind in as_list(kinds)[:16]])
        if not _OBJECT_KEYS.isdisjoint(schema):
            return self._of_kind("object", schema, hint, parent, depth)
        if not _ARRAY_KEYS.isdisjoint(schema):
            return self._array(schema, hint, parent, depth)
        return self._definitions.any()

    def _of_kind(self, kind: str, schema: Schema, hint: str, parent: str, depth: int) -> Type:
        if kind in PLAIN:
            return PLAIN[kind]
        if kind == "array":
            return self._array(schema, hint, parent, depth)
        if kind != "object":
            return self._definitions.any()
        if _is_object(schema) and not self._definitions.is_full:
            return self._object(schema, self._definitions.reserve(hint, parent), depth)
        return dict_of(self._values_of(schema, hint, parent, depth))

    def _values(self, values: Sequence[Any]) -> Type:
        """A Literal of what can be one; the rest by its type."""
        told: list[str] = []
        others: list[Type] = []
        for value in values:
            text = None if isinstance(value, float) or len(values) > _MOST_VALUES else literal(value)
            if value is None:
                others.append(PLAIN["null"])
            elif text is None:
                others.append(self._like(value))
            else:
                told.append(text)
        if told:
            self._definitions.uses.add("Literal")
            others.append(Type(values=tuple(dict.fromkeys(told))))
        return one_of(others)

    def _like(self, value: Any) -> Type:
        for kind, python in (("boolean", bool), ("string", str), ("integer", int), ("number", float)):
            if isinstance(value, python):
                return PLAIN[kind]
        made = list_of if isinstance(value, list) else dict_of
        return made(self._definitions.any())

    def _alternatives(self, schema: Schema, options: Sequence[Any], hint: str, parent: str, depth: int) -> Type:
        """A union. Alternatives of an object that has fields of its own have those as well."""
        base = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf"}}
        if not _is_object(base):
            kinds = [base.get("type"), *as_list(base.get("type"))]
            several = len(options) > 1
            return one_of(
                [
                    self.type_of(
                        _with_kind(option, kinds), _own_hint(option, hint) if several else hint, parent, depth + 1
                    )
                    for option in options
                ]
            )
        whole = [flat(self._root, option) for option in options]
        if len(whole) > _MOST_ALTERNATIVES or not any(properties(option) for option in whole):
            return self._of_schema(base, hint, parent, depth)
        return one_of(
            [self.type_of({"allOf": [option, base]}, _own_hint(option, hint), parent, depth + 1) for option in whole],
        )

    def _array(self, schema: Schema, hint: str, parent: str, depth: int) -> Type:
        items = schema.get("items")
        firsts = as_list(schema.get("prefixItems")) or as_list(items)
        if firsts and len(firsts) <= _MOST_ALTERNATIVES * 2:
            made = [self.type_of(item, f"{hint} {place + 1}", parent, depth + 1) for place, item in enumerate(firsts)]
            if not isinstance(items, Mapping):
                return tuple_of(made)
            return list_of(one_of([*made, self.type_of(items, f"{hint} item", parent, depth + 1)]))
        if items is None or isinstance(items, (bool, list)):
            return list_of(self._definitions.any())
        return list_of(self.type_of(items, f"{hint} item", parent, depth + 1))

    def _object(self, schema: Schema, name: str, depth: int) -> Type:
        needed = required(schema)
        fields: list[Field] = []
        for key, inner in properties(schema).items():
            made = self.type_of(inner, key, name, depth + 1)
            fields.append(Field(key, made, key in needed, note(inner)))
        known = properties(schema)
        fields += [Field(key, self._definitions.any(), required=True) for key in needed if key not in known]
        made = self._definitions.write_object(name, fields)
        if self._reads or schema.get("additionalProperties") in (None, False):
            return made
        return one_of([made, dict_of(self._definitions.any())])

    def _values_of(self, schema: Schema, hint: str, parent: str, depth: int) -> Type:
        """The type of the values of an object that names no keys."""
        found = list(as_schema(schema.get("patternProperties")).values())
        rest = schema.get("additionalProperties")
        if isinstance(rest, Mapping):
            found.append(cast("Schema", rest))
        if not found:
            return self._definitions.any()
        return one_of(
            [self.type_of(inner, f"{hint} value", parent, depth + 1) for inner in found[:_MOST_ALTERNATIVES]]
        )


def _is_object(schema: Schema) -> bool:
    """Whether it is an object that names its keys."""
    kind = schema.get("type")
    if not (kind is None or kind == "object" or "object" in as_list(kind)):
        return False
    return bool(properties(schema)) or (bool(required(schema)) and kind == "object")


def _own_hint(option: Any, hint: str) -> str:
    """A name for one of several objects: the value that tells it apart (`{"type": "uri"}`), or its title."""
    known = as_schema(option)
    for inner in properties(known).values():
        told = as_schema(inner).get("const", next(iter(as_list(as_schema(inner).get("enum"))), None))
        if (
            isinstance(told, str)
            and 0 < len(told) <= _LONGEST_HINT
            and len(as_list(as_schema(inner).get("enum"))) < 2
        ):
            return f"{told} {hint}"
    title = text_of(known, "title")
    return title if 0 < len(title) <= _LONGEST_HINT else hint


def _with_kind(option: Any, kinds: Sequence[Any]) -> Any:
    """An alternative that leaves the type to the schema around it."""
    kind = next((one for one in kinds if isinstance(one, str)), None)
    if kind is None or not isinstance(option, Mapping):
        return option
    known = cast("Schema", option)
    return known if not _TELLS_TYPE.isdisjoint(known) else {**known, "type": kind}

"""Python types as source text, with the defaults that they accept.

`TypeDefinitions` collects the classes and aliases of one tool file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolyard.codemode.files.literals import python_literal, render_comment
from toolyard.codemode.files.names import IMPORTED_NAMES, class_name, is_identifier

_MAX_CLASSES = 250
"""Classes in one file. Further objects become plain dictionaries."""
_LONGEST_DEFAULT = 200
_STRINGS = re.compile(r"\"[^\"]*\"|'(?:[^'\\]|\\.)*'")
_WORD = re.compile(r"[^\W\d]\w*")

_KIND_NAMES: dict[type, str] = {str: "str", bool: "bool", int: "int", float: "float", type(None): "None"}


@dataclass(frozen=True, slots=True)
class PythonType:
    """A union as Python text. `values` are the members of its `Literal`, `default_kinds` the
    types of valid defaults.
    """

    members: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    default_kinds: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The annotation."""
        parts = [f"Literal[{', '.join(self.values)}]"] if self.values else []
        parts += [member for member in self.members if member != "None"]
        if "None" in self.members:
            parts.append("None")
        return " | ".join(parts)

    @property
    def is_any(self) -> bool:
        return self.members == ("Any",)

    def default_text(self, value: Any) -> str | None:
        """Returns a default as source text, or None if this type does not accept it."""
        if value in ([], {}):
            return repr(value) if type(value).__name__ in self.default_kinds else None
        text = None if isinstance(value, str) and len(value) > _LONGEST_DEFAULT else python_literal(value)
        kind = _KIND_NAMES.get(cast("type", type(value)))
        return text if text is not None and (kind in self.default_kinds or text in self.values) else None


ANY = PythonType(("Any",), default_kinds=frozenset({"str", "bool", "int", "float", "None", "list", "dict"}))
NEVER = PythonType(("Never",))
SCALAR_TYPES = {
    "string": PythonType(("str",), default_kinds=frozenset({"str"})),
    "integer": PythonType(("int",), default_kinds=frozenset({"int"})),
    "number": PythonType(("float",), default_kinds=frozenset({"float", "int"})),
    "boolean": PythonType(("bool",), default_kinds=frozenset({"bool"})),
    "null": PythonType(("None",), default_kinds=frozenset({"None"})),
}


def list_of(item: PythonType) -> PythonType:
    return PythonType((f"list[{item.text}]",), default_kinds=frozenset({"list"}))


def dict_of(value: PythonType) -> PythonType:
    return PythonType((f"dict[str, {value.text}]",), default_kinds=frozenset({"dict"}))


def tuple_of(items: Sequence[PythonType]) -> PythonType:
    return PythonType((f"tuple[{', '.join(item.text for item in items)}]",))


def union_of(options: Iterable[PythonType]) -> PythonType:
    """Returns the union, each alternative once."""
    members: dict[str, None] = {}
    values: dict[str, None] = {}
    takes: frozenset[str] = frozenset()
    for option in options:
        if option.is_any:
            return ANY
        members.update(dict.fromkeys(option.members))
        values.update(dict.fromkeys(option.values))
        takes |= option.default_kinds
    if len(members) + len(values) > 1:
        members.pop("Never", None)
    if "float" in members:
        members.pop("int", None)  # type checkers accept an int for a float
    if "str" in members:
        values = {text: None for text in values if text[:1] not in {'"', "'"}}
    if not members and not values:
        return ANY
    return PythonType(tuple(members), tuple(values), takes)


@dataclass(frozen=True, slots=True)
class ObjectField:
    """One key of an object."""

    key: str
    type: PythonType
    required: bool
    note: str = ""


@dataclass(slots=True)
class TypeDefinitions:
    """The classes and aliases of one file, in the order in which they are written."""

    names: set[str] = field(default_factory=set[str])
    texts: list[str] = field(default_factory=list[str])
    typing_names: set[str] = field(default_factory=set[str])
    _bodies: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_full(self) -> bool:
        return len(self.texts) >= _MAX_CLASSES

    def typing_imports(self, annotations: Sequence[str]) -> list[str]:
        """Returns the names to import from `typing`. Unused types may have been discarded."""
        words = set(_WORD.findall("\n".join([*self.texts, *annotations])))
        return sorted(self.typing_names & words)

    def reserve(self, hint: str, parent: str = "") -> str:
        """Returns a type name that is unique in the file."""
        own = class_name(hint)
        longer = class_name(f"{parent} {hint}")
        number = 2
        name = own
        while name in self.names or name in IMPORTED_NAMES:
            name = longer if longer not in self.names and longer not in IMPORTED_NAMES else f"{own}{number}"
            number += 1
        self.names.add(name)
        return name

    def write_object(self, name: str, fields: Sequence[ObjectField]) -> PythonType:
        """Defines a TypedDict, or returns an identical earlier one."""
        self.typing_names.add("TypedDict")
        head, body = self._as_class(fields) if self._can_be_class(fields) else self._as_call(fields)
        takes: frozenset[str] = frozenset() if any(item.required for item in fields) else frozenset({"dict"})
        known = self._bodies.setdefault(head + body, name)
        if known == name:
            self.texts.append(head.replace("\0", name) + body)
        return PythonType((known,), default_kinds=takes)

    def write_alias(self, name: str, aliased: PythonType) -> PythonType:
        """Defines an alias for a recursive type. Its own name is dropped at the top level."""
        rest = PythonType(
            tuple(text for text in aliased.members if text != name), aliased.values, aliased.default_kinds
        )
        if not rest.text:
            return self.any_type()
        self.typing_names.add("TypeAlias")
        self.texts.append(f"{name}: TypeAlias = {self._quote_type(name, rest)}")
        return PythonType((name,), default_kinds=aliased.default_kinds)

    def any_type(self) -> PythonType:
        self.typing_names.add("Any")
        return ANY

    def _can_be_class(self, fields: Sequence[ObjectField]) -> bool:
        """Whether the keys can be names in a class body: not mangled, and not hiding a type that is used."""
        words = set(IMPORTED_NAMES)
        for item in fields:
            words.update(_WORD.findall(_STRINGS.sub("", item.type.text)))
        return all(is_identifier(item.key) and item.key[:2] != "__" and item.key not in words for item in fields)

    def _as_class(self, fields: Sequence[ObjectField]) -> tuple[str, str]:
        total, lines = not all(not item.required for item in fields), list[str]()
        for item in fields:
            lines.append(f"    {item.key}: {self._field_annotation(item, total)}{_trailing_comment(item)}")
        head = "class \0(TypedDict):\n" if total else "class \0(TypedDict, total=False):\n"
        return head, "\n".join(lines)

    def _as_call(self, fields: Sequence[ObjectField]) -> tuple[str, str]:
        total, lines = not all(not item.required for item in fields), list[str]()
        for item in fields:
            marked = PythonType((self._field_annotation(item, total),))
            lines.append(
                f"        {python_literal(item.key)}: {self._quote_type(item.key, marked)},{_trailing_comment(item)}"
            )
        end = "    },\n)" if total else "    },\n    total=False,\n)"
        return '\0 = TypedDict(\n    "\0",\n    {\n', "\n".join([*lines, end])

    def _field_annotation(self, item: ObjectField, total: bool) -> str:
        if item.required or not total:
            return item.type.text
        self.typing_names.add("NotRequired")
        return f"NotRequired[{item.type.text}]"

    def _quote_type(self, hint: str, quoted: PythonType) -> str:
        """Returns a quoted type. Type checkers reject escapes there, so literals that need them get names first."""
        text = quoted.text
        for found in re.findall(r"Literal\[(?:\"[^\"]*\"|'(?:[^'\\]|\\.)*'|[^\]\"'])*\]", text):
            if "\\" in found or "'" in found:
                name = self.reserve(f"{hint} values")
                self.texts.append(f"{name} = {found}")
                text = text.replace(found, name)
        return f"'{text}'"


def _trailing_comment(item: ObjectField) -> str:
    return f"  # {render_comment(item.note)}" if item.note else ""

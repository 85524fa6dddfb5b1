"""A Python type as it will be written, with what has to be known of it: which defaults it takes.

`Definitions` gathers the classes and aliases of one tool file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolyard.codemode.files.literals import comment, literal
from toolyard.codemode.files.names import WRITTEN, class_name, is_identifier

_MOST_CLASSES = 250
"""Classes in one file. Further objects are plain dictionaries."""
_LONGEST_DEFAULT = 200
_STRINGS = re.compile(r"\"[^\"]*\"|'(?:[^'\\]|\\.)*'")
_WORD = re.compile(r"[^\W\d]\w*")

_KINDS: dict[type, str] = {str: "str", bool: "bool", int: "int", float: "float", type(None): "None"}


@dataclass(frozen=True, slots=True)
class Type:
    """Alternatives, as Python text. `values` are the members of its `Literal`, `takes` the kinds of defaults."""

    members: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        parts = [f"Literal[{', '.join(self.values)}]"] if self.values else []
        parts += [member for member in self.members if member != "None"]
        if "None" in self.members:
            parts.append("None")
        return " | ".join(parts)

    @property
    def is_any(self) -> bool:
        return self.members == ("Any",)

    def default(self, value: Any) -> str | None:
        """A default as it is written in a signature, or None where this type does not take it."""
        if value in ([], {}):
            return repr(value) if type(value).__name__ in self.takes else None
        text = None if isinstance(value, str) and len(value) > _LONGEST_DEFAULT else literal(value)
        kind = _KINDS.get(cast("type", type(value)))
        return text if text is not None and (kind in self.takes or text in self.values) else None


ANY = Type(("Any",), takes=frozenset({"str", "bool", "int", "float", "None", "list", "dict"}))
NEVER = Type(("Never",))
PLAIN = {
    "string": Type(("str",), takes=frozenset({"str"})),
    "integer": Type(("int",), takes=frozenset({"int"})),
    "number": Type(("float",), takes=frozenset({"float", "int"})),
    "boolean": Type(("bool",), takes=frozenset({"bool"})),
    "null": Type(("None",), takes=frozenset({"None"})),
}


def list_of(item: Type) -> Type:
    return Type((f"list[{item.text}]",), takes=frozenset({"list"}))


def dict_of(value: Type) -> Type:
    return Type((f"dict[str, {value.text}]",), takes=frozenset({"dict"}))


def tuple_of(items: Sequence[Type]) -> Type:
    return Type((f"tuple[{', '.join(item.text for item in items)}]",))


def one_of(options: Iterable[Type]) -> Type:
    """The union, each alternative once."""
    members: dict[str, None] = {}
    values: dict[str, None] = {}
    takes: frozenset[str] = frozenset()
    for option in options:
        if option.is_any:
            return ANY
        members.update(dict.fromkeys(option.members))
        values.update(dict.fromkeys(option.values))
        takes |= option.takes
    if len(members) + len(values) > 1:
        members.pop("Never", None)
    if "float" in members:
        members.pop("int", None)  # a float's annotation takes whole numbers as well
    if "str" in members:
        values = {text: None for text in values if text[:1] not in {'"', "'"}}
    if not members and not values:
        return ANY
    return Type(tuple(members), tuple(values), takes)


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an object."""

    key: str
    type: Type
    required: bool
    note: str = ""


@dataclass(slots=True)
class Definitions:
    """The classes and aliases of one file, in the order in which they are written."""

    names: set[str] = field(default_factory=set[str])
    texts: list[str] = field(default_factory=list[str])
    uses: set[str] = field(default_factory=set[str])
    _bodies: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_full(self) -> bool:
        return len(self.texts) >= _MOST_CLASSES

    def used_in(self, annotations: Sequence[str]) -> list[str]:
        """What the file has to import from `typing`: a type may have been thrown away after it was made."""
        words = set(_WORD.findall("\n".join([*self.texts, *annotations])))
        return sorted(self.uses & words)

    def reserve(self, hint: str, parent: str = "") -> str:
        """A name that no other type of the file has."""
        own = class_name(hint)
        longer = class_name(f"{parent} {hint}")
        number = 2
        name = own
        while name in self.names or name in WRITTEN:
            name = longer if longer not in self.names and longer not in WRITTEN else f"{own}{number}"
            number += 1
        self.names.add(name)
        return name

    def write_object(self, name: str, fields: Sequence[Field]) -> Type:
        """A TypedDict; one that says the same as an earlier one is that one."""
        self.uses.add("TypedDict")
        head, body = self._as_class(fields) if self._can_be_class(fields) else self._as_call(fields)
        takes: frozenset[str] = frozenset() if any(item.required for item in fields) else frozenset({"dict"})
        known = self._bodies.setdefault(head + body, name)
        if known == name:
            self.texts.append(head.replace("\0", name) + body)
        return Type((known,), takes=takes)

    def write_alias(self, name: str, aliased: Type) -> Type:
        """A name for a type that contains itself. Its own name on its top level adds nothing."""
        rest = Type(tuple(text for text in aliased.members if text != name), aliased.values, aliased.takes)
        if not rest.text:
            return self.any()
        self.uses.add("TypeAlias")
        self.texts.append(f"{name}: TypeAlias = {self._quoted(name, rest)}")
        return Type((name,), takes=aliased.takes)

    def any(self) -> Type:
        self.uses.add("Any")
        return ANY

    def _can_be_class(self, fields: Sequence[Field]) -> bool:
        """Whether the keys can be names in a class body: not mangled there, and not hiding a type that is used."""
        words = set(WRITTEN)
        for item in fields:
            words.update(_WORD.findall(_STRINGS.sub("", item.type.text)))
        return all(is_identifier(item.key) and item.key[:2] != "__" and item.key not in words for item in fields)

    def _as_class(self, fields: Sequence[Field]) -> tuple[str, str]:
        total, lines = not all(not item.required for item in fields), list[str]()
        for item in fields:
            lines.append(f"    {item.key}: {self._marked(item, total)}{_note(item)}")
        head = "class \0(TypedDict):\n" if total else "class \0(TypedDict, total=False):\n"
        return head, "\n".join(lines)

    def _as_call(self, fields: Sequence[Field]) -> tuple[str, str]:
        total, lines = not all(not item.required for item in fields), list[str]()
        for item in fields:
            marked = Type((self._marked(item, total),))
            lines.append(f"        {literal(item.key)}: {self._quoted(item.key, marked)},{_note(item)}")
        end = "    },\n)" if total else "    },\n    total=False,\n)"
        return '\0 = TypedDict(\n    "\0",\n    {\n', "\n".join([*lines, end])

    def _marked(self, item: Field, total: bool) -> str:
        if item.required or not total:
            return item.type.text
        self.uses.add("NotRequired")
        return f"NotRequired[{item.type.text}]"

    def _quoted(self, hint: str, quoted: Type) -> str:
        """A type in quotes. Type checkers refuse escapes there, so literals that need them get names first."""
        text = quoted.text
        for found in re.findall(r"Literal\[(?:\"[^\"]*\"|'(?:[^'\\]|\\.)*'|[^\]\"'])*\]", text):
            if "\\" in found or "'" in found:
                name = self.reserve(f"{hint} values")
                self.texts.append(f"{name} = {found}")
                text = text.replace(found, name)
        return f"'{text}'"


def _note(item: Field) -> str:
    return f"  # {comment(item.note)}" if item.note else ""

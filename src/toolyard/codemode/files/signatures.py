"""The parameters of one tool: how they are spelled, typed, ordered and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolyard.codemode.files.constraints import LONGEST_ARGUMENT_NOTE, annotated_description
from toolyard.codemode.files.literals import python_literal
from toolyard.codemode.files.names import PARAMETERS, spell_names
from toolyard.codemode.files.python_types import TypeDefinitions
from toolyard.codemode.files.schema_to_type import SchemaTyper
from toolyard.codemode.files.schemas import Schema, as_schema, join_alternatives, properties, required_names

OMITTED = "..."
_MAX_NEEDS = 6
_EXTRA_NAME = "arguments"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `default` is text as in a signature; a required one has none."""

    name: str
    key: str
    type: str
    default: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        return f"{self.name}: {self.type} = {self.default}" if self.default else f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class ToolSignature:
    required: tuple[Parameter, ...]
    optional: tuple[Parameter, ...]
    rest: str = ""
    """`**name: type` where the server takes arguments that it does not name."""
    needs: tuple[str, ...] = ()
    """Where there are alternatives: the parameters that each of them requires."""

    @property
    def parts(self) -> list[str]:
        star = ["*"] if self.optional else []
        last = [self.rest] if self.rest else []
        return [*(one.text for one in self.required), *star, *(one.text for one in self.optional), *last]

    @property
    def renamed_arguments(self) -> dict[str, str]:
        return {one.name: one.key for one in (*self.required, *self.optional) if one.name != one.key}


def build_signature(schema: Any, definitions: TypeDefinitions) -> ToolSignature:
    """The parameters that a tool's input schema asks for. Whatever is wrong with it, there is a signature."""
    root = as_schema(schema)
    whole, needs = join_alternatives(root, root)
    typer = SchemaTyper(root, definitions)
    known = properties(whole)
    needed = required_names(whole)
    # A name that is required and nowhere described still has to be sent.
    keys = [
        *(key for key in known if known[key] is not False or key in needed),
        *(k for k in needed if k not in known),
    ]
    names = dict(zip(keys, spell_names(keys, PARAMETERS), strict=True))
    first: list[Parameter] = []
    second: list[Parameter] = []
    for key, name in names.items():
        must = key in needed
        (first if must else second).append(_build_parameter(typer, key, name, known.get(key, True), must=must))
    told = tuple(" and ".join(names.get(key, key) for key in keys) for keys in needs[:_MAX_NEEDS] if keys)
    return ToolSignature(tuple(first), tuple(second), _extra_arguments(typer, whole, set(names.values())), told)


def _build_parameter(typer: SchemaTyper, key: str, name: str, schema: Any, *, must: bool) -> Parameter:
    made = typer.type_of(schema, key)
    known = as_schema(schema)
    default = "" if must else OMITTED
    unsaid: Any = ...
    if "default" in known:
        said = None if must else made.default_text(known["default"])
        default = said or default
        # That nothing is assumed goes without saying.
        unsaid = ... if said or known["default"] is None else known["default"]
    return Parameter(
        name, key, made.text, default, annotated_description(known, default=unsaid, longest=LONGEST_ARGUMENT_NOTE)
    )


def _extra_arguments(typer: SchemaTyper, schema: Schema, taken: set[str]) -> str:
    extra = schema.get("additionalProperties")
    describes = bool(properties(schema)) or "type" in schema
    if extra is None and describes and "patternProperties" not in schema:
        return ""
    if extra is False or _EXTRA_NAME in taken:
        return ""
    return f"**{_EXTRA_NAME}: {typer.type_of(extra if extra is not None else True, 'Argument').text}"


def render_renames(renamed: dict[str, str]) -> str:
    """The mapping of names as the decorator takes it."""
    pairs: Sequence[str] = [f"{python_literal(name)}: {python_literal(key)}" for name, key in renamed.items()]
    return f", {{{', '.join(pairs)}}}" if pairs else ""

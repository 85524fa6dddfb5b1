"""The parameters of a tool: their names, types, order and descriptions."""

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
    """One parameter. `default` is source text; a required parameter has none."""

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
    """The parameters of one tool."""

    required: tuple[Parameter, ...]
    optional: tuple[Parameter, ...]
    rest: str = ""
    """`**name: type` if the server accepts further arguments."""
    needs: tuple[str, ...] = ()
    """The required parameters of each alternative, if there are alternatives."""

    @property
    def parts(self) -> list[str]:
        star = ["*"] if self.optional else []
        last = [self.rest] if self.rest else []
        return [*(one.text for one in self.required), *star, *(one.text for one in self.optional), *last]

    @property
    def renamed_arguments(self) -> dict[str, str]:
        """The argument names of parameters whose Python name differs."""
        return {one.name: one.key for one in (*self.required, *self.optional) if one.name != one.key}


def build_signature(schema: Any, definitions: TypeDefinitions) -> ToolSignature:
    """Returns the signature for a tool's input schema. Invalid schemas give a signature as well."""
    root = as_schema(schema)
    whole, needs = join_alternatives(root, root)
    typer = SchemaTyper(root, definitions)
    known = properties(whole)
    needed = required_names(whole)
    # A required name that the schema does not describe still has to be sent.
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
    alternatives = tuple(" and ".join(names.get(key, key) for key in keys) for keys in needs[:_MAX_NEEDS] if keys)
    return ToolSignature(
        tuple(first), tuple(second), _extra_arguments(typer, whole, set(names.values())), alternatives
    )


def _build_parameter(typer: SchemaTyper, key: str, name: str, schema: Any, *, must: bool) -> Parameter:
    made = typer.type_of(schema, key)
    known = as_schema(schema)
    default = "" if must else OMITTED
    unwritten: Any = ...
    if "default" in known:
        written = None if must else made.default_text(known["default"])
        default = written or default
        # A default of null needs no mention.
        unwritten = ... if written or known["default"] is None else known["default"]
    return Parameter(
        name, key, made.text, default, annotated_description(known, default=unwritten, longest=LONGEST_ARGUMENT_NOTE)
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
    """Returns the mapping of names as an argument of the decorator."""
    pairs: Sequence[str] = [f"{python_literal(name)}: {python_literal(key)}" for name, key in renamed.items()]
    return f", {{{', '.join(pairs)}}}" if pairs else ""

"""Derives a tool's schema from a typed function, and the function's values from arguments.

pydantic reads the type hints. The schema reflects the hints, and the arguments of a call are validated and converted
by them. A parameter of type `ToolContext` is filled in by Toolyard and belongs to neither.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pydantic
import pydantic_core
from pydantic import TypeAdapter

from toolyard.codemode.custom.context import ToolContext
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError, FieldError, ToolError, ValidationError
from toolyard.core.upstream import Json, ToolSchema, UpstreamResult

Function = Callable[..., Any]
RESULT_KEY: Final = "result"
"""The key that holds a result that is not an object itself."""

_ALLOWED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SECTION: Final = re.compile(r"^(\w[\w ]*):\s*$")
_ARGUMENT: Final = re.compile(r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")
_UNDECLARED: Final = (inspect.Signature.empty, Any, None, type(None), UpstreamResult)


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """How a function is called."""

    schema: ToolSchema
    parameters: tuple[str, ...]
    context: str | None
    """The parameter that receives the ToolContext."""
    arguments: TypeAdapter[Any]
    result: TypeAdapter[Any] | None

    def bind(self, given: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Returns the values to call the function with. Raises ValidationError for invalid arguments."""
        unknown = tuple(name for name in given if name not in self.parameters)
        if unknown:
            fields = tuple(FieldError(name, "is not an argument of this tool") for name in unknown)
            message = f"{unknown[0]}: is not an argument of {self.schema.name}"
            raise ValidationError(message, fields, hint=did_you_mean(unknown[0], self.parameters or ("none",)))
        try:
            call = pydantic_core.ArgsKwargs((), dict(given))
            values = cast("dict[str, Any]", self.arguments.validate_python(call))
        except pydantic.ValidationError as error:
            fields = tuple(
                FieldError(".".join(str(step) for step in each["loc"]), each["msg"])
                for each in error.errors(include_url=False, include_input=False)
            )
            takes = ", ".join(self.parameters)
            hint = f"{self.schema.name} takes {takes}; its file says what each is."
            raise ValidationError(f"{fields[0].field}: {fields[0].error}", fields, hint=hint) from None
        return values if self.context is None else {**values, self.context: context}

    def to_result(self, value: Any) -> UpstreamResult:
        """Converts the function's return value to a result."""
        if isinstance(value, UpstreamResult):
            return value
        try:
            plain = (
                self.result.dump_python(value, mode="json")
                if self.result
                else pydantic_core.to_jsonable_python(value)
            )
        except (pydantic_core.PydanticSerializationError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise ToolError(
                f"{self.schema.name} returned a value that cannot be converted to JSON: {first}",
                hint="Let it return what JSON can hold: text, numbers, lists, mappings, dataclasses, models.",
            ) from None
        structured = None
        if self.is_wrapped:
            structured = {RESULT_KEY: plain}
        elif isinstance(plain, dict):
            structured = cast("dict[str, Any]", plain)
        return UpstreamResult(({"type": "text", "text": _as_text(plain)},), structured)

    @property
    def is_wrapped(self) -> bool:
        """Whether the value is wrapped in an object, because MCP allows no other structured results."""
        schema = self.schema.output_schema
        return schema is not None and schema.get("x-toolyard-wrapped") is True

    @property
    def unwrapped_schema(self) -> ToolSchema:
        """The schema with the value's own type as its output."""
        schema = self.schema.output_schema
        if schema is None or not self.is_wrapped:
            return self.schema
        defined = {key: schema[key] for key in ("$defs",) if key in schema}
        return replace(self.schema, output_schema={**schema["properties"][RESULT_KEY], **defined})


def inspect_function(function: Function, name: str, annotations: Json | None = None) -> FunctionSignature:
    """Reads a function's signature. Raises ConfigError if it cannot be a tool."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        shape = inspect.signature(function)
    except (NameError, TypeError, ValueError, AttributeError) as error:
        hint = "Import the names that they use where the function is defined."
        raise ConfigError(f"the type hints of {name} cannot be read: {error}.", hint=hint) from None
    context = next(
        (parameter for parameter, hint in hints.items() if hint is ToolContext and parameter != "return"), None
    )
    accepted = [parameter for parameter in shape.parameters.values() if parameter.name != context]
    for parameter in accepted:
        if parameter.kind not in _ALLOWED_KINDS:
            raise ConfigError(f"{name} takes *{parameter.name}, which a tool cannot", hint="Name every parameter.")
        if parameter.name not in hints:
            raise ConfigError(
                f"the parameter {parameter.name} of {name} has no type", hint=f"Write `{parameter.name}: str`."
            )
    description, descriptions = split_docstring(inspect.getdoc(function) or "")
    arguments = _type_adapter(_argument_collector(accepted, hints, function), name)
    returned = hints.get("return", inspect.Signature.empty)
    result = None if returned in _UNDECLARED or returned is str else _type_adapter(returned, name)
    schema = ToolSchema(
        name=name,
        description=description,
        input_schema=_with_descriptions(_json_schema(arguments, name, "validation"), descriptions),
        output_schema=None if result is None else _wrap_result_schema(_json_schema(result, name, "serialization")),
        annotations=annotations or {},
    )
    return FunctionSignature(schema, tuple(parameter.name for parameter in accepted), context, arguments, result)


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Returns the description without its `Args:` section, and the text of each argument."""
    description_lines: list[str] = []
    descriptions: dict[str, str] = {}
    section, last = "", ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading or (section and line and not line[0].isspace()):
            section = heading[1] if heading else ""
        if section not in {"Args", "Arguments", "Parameters"}:
            description_lines.append(line)
        elif match := _ARGUMENT.match(line.strip()):
            last = match[1]
            descriptions[last] = match[2]
        elif last and line.strip() and not heading:
            descriptions[last] += f" {line.strip()}"
    return "\n".join(description_lines).strip(), descriptions


def _argument_collector(accepted: list[inspect.Parameter], hints: Mapping[str, Any], function: Function) -> Function:
    """Returns a function with the tool's parameters that returns its arguments, for pydantic to validate."""

    def collect(**values: Any) -> dict[str, Any]:
        return values

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in accepted
    ]
    collect.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    collect.__annotations__ = {parameter.name: hints[parameter.name] for parameter in accepted}
    collect.__module__ = function.__module__
    return collect


def _type_adapter(what: Any, name: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(what)
    except pydantic.PydanticUserError as error:
        raise _unsupported_type_error(name, error) from None


def _json_schema(
    adapter: TypeAdapter[Any], name: str, mode: typing.Literal["validation", "serialization"]
) -> dict[str, Any]:
    try:
        return adapter.json_schema(mode=mode)
    except pydantic.PydanticUserError as error:
        raise _unsupported_type_error(name, error) from None


def _unsupported_type_error(name: str, error: pydantic.PydanticUserError) -> ConfigError:
    return ConfigError(
        f"{name} has a type that cannot be described: {str(error).partition(chr(10))[0]}",
        hint="Use what JSON can hold: text, numbers, lists, mappings, dataclasses, models.",
    )


def _with_descriptions(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    properties = cast("dict[str, dict[str, Any]]", schema.setdefault("properties", {}))
    for name, text in descriptions.items():
        if name in properties:
            properties[name].setdefault("description", text)
    return schema


def _wrap_result_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Wraps a result's schema in an object, as MCP requires."""
    if schema.get("type") == "object":
        return schema
    defined = {key: schema.pop(key) for key in ("$defs",) if key in schema}
    if cast("str", schema.get("$ref", "")).startswith("#/$defs/"):
        return {"type": "object", **schema, **defined}
    return {
        "type": "object",
        "properties": {RESULT_KEY: schema},
        "required": [RESULT_KEY],
        "x-toolyard-wrapped": True,
        **defined,
    }


def _as_text(plain: Any) -> str:
    return plain if isinstance(plain, str) else pydantic_core.to_json(plain).decode()

"""The Tool class: a tool's name, its schemas, its effect on files, and the function that runs it."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic import ValidationError as PydanticError

from toolyard.core.calls import Result
from toolyard.core.errors import FieldError, ValidationError
from toolyard.core.limits import RunLimits
from toolyard.dispatch.call_context import CallContext

_MAX_LISTED_FIELDS = 5
_DEFAULT = "default"
_TRIMMED_KEYS = ("title", "minLength", "maxLength")
_EMPTY_DEFAULTS: tuple[Any, ...] = (None, "", [])
"""Defaults that only mean that the argument is optional."""
_NULL = {"type": "null"}


class Arguments(BaseModel):
    """Base class of every tool's arguments. Types are strict and unknown arguments are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool.

    `run` is synchronous, runs in a worker thread, and reaches files and commands through the CallContext.
    """

    name: str
    description: str
    arguments: type[A]
    output: dict[str, Any]
    run: Callable[[A, CallContext], Result]
    kind: str
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False
    """Whether it communicates with other machines."""
    is_quick: Callable[[A], bool] | None = None
    """Returns whether a call takes far less time than waking a thread does. None: no call does."""
    queue_name: Callable[[A], str | None] | None = None
    """Calls with the same queue name run one after another, in the order of their arrival. None: no queue."""
    max_seconds: Callable[[A, RunLimits], float] | None = None
    """Returns how many seconds a call of a tool that runs code may take. None: the limit of every other call."""
    shows_defaults: bool = False
    """Whether the schema includes default values. Each one costs tokens in every context."""

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema, without keywords that a model does not need."""
        schema = self.arguments.model_json_schema(by_alias=True)
        return cast("dict[str, Any]", _trim_schema(schema, defaults=self.shows_defaults))

    def parse_arguments(self, raw: dict[str, Any]) -> A:
        """Validates the raw arguments. Raises a ValidationError that lists each invalid one."""
        try:
            return self.arguments.model_validate(raw)
        except PydanticError as error:
            raise self._validation_error(error) from None

    def _validation_error(self, error: PydanticError) -> ValidationError:
        known = list(self.input_schema.get("properties", {}))
        fields = tuple(
            FieldError(
                ".".join(str(part) for part in fault["loc"]) or "arguments",
                _field_message(fault["type"], fault["msg"]),
            )
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        )
        listed = "; ".join(f"{field.field}: {field.error}" for field in fields[:_MAX_LISTED_FIELDS])
        required = set(self.input_schema.get("required", []))
        takes = ", ".join(f"{name} (required)" if name in required else name for name in known)
        close = [match for field in fields for match in difflib.get_close_matches(field.field, known, n=1)]
        guess = f" Did you mean {close[0]}?" if close and close[0] not in {field.field for field in fields} else ""
        return ValidationError(
            f"{self.name} cannot run with these arguments: {listed}.",
            fields,
            hint=f"{self.name} takes {takes or 'no arguments'}.{guess}",
        )


def _field_message(kind: str, message: str) -> str:
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is not an argument of this tool"
    return message[0].lower() + message[1:]


def _trim_schema(schema: object, *, defaults: bool) -> object:
    if isinstance(schema, dict):
        node = _without_null(cast("dict[str, Any]", schema))
        trimmed: dict[str, Any] = {}
        for key, value in node.items():
            if key == "properties":
                trimmed[key] = {name: _trim_schema(sub, defaults=defaults) for name, sub in value.items()}
            elif key == _DEFAULT:
                trimmed |= {key: value} if defaults and value not in _EMPTY_DEFAULTS else {}
            elif key not in _TRIMMED_KEYS:
                trimmed[key] = _trim_schema(value, defaults=defaults)
        return trimmed
    if isinstance(schema, list):
        return [_trim_schema(item, defaults=defaults) for item in cast("list[object]", schema)]
    return schema


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Returns an optional argument's plain type, without the null choice: it can be omitted instead."""
    choices = node.get("anyOf", [])
    if len(choices) == 2 and _NULL in choices:
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return {**next(choice for choice in choices if choice != _NULL), **rest}
    return node


def output_schema(optional: tuple[str, ...] = (), /, **properties: str | dict[str, Any]) -> dict[str, Any]:
    """Builds an object schema from names and types: `output_schema(path="string", lines="integer")`."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()},
        "required": [name for name in properties if name not in optional],
    }


STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}

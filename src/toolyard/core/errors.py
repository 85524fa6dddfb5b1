"""The error tree. Each error says what happened, why, and what to do next.

    ToolyardError
    ├── SecurityError      -32001  the sandbox or the policy refused; `fields` names the arguments, if known
    ├── ValidationError    -32602  the arguments are invalid; `fields` says which and why
    │   └── UnknownToolError       no tool has the requested name
    ├── ToolError          -32603  the tool ran and failed (no such file, no match, ...)
    │   └── ProviderError          the model provider that the tool uses did not answer
    ├── SystemFault        -32000  the machine or Toolyard itself failed
    └── ConfigError        -32000  a configuration file is wrong; `where` names file and line

`code` is the JSON-RPC code, `hint` the next step, `retryable` whether the same call may succeed later. `facts` holds
further data for programs: for a model provider its `provider_status` and `retry_after`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

Facts: TypeAlias = Mapping[str, str | int | float]


class ErrorForm(StrEnum):
    """How an MCP server reports a failed tool call."""

    RESULT = "result"
    """A result with `isError: true`, which clients show to their models."""
    JSONRPC = "jsonrpc"
    """A JSON-RPC error, which many clients treat as a connection failure."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid argument: `field` names it, `error` says why."""

    field: str
    error: str


class ToolyardError(Exception):
    """Base class of every error that Toolyard raises on purpose."""

    code: ClassVar[int] = -32000
    kind: ClassVar[str] = "system"

    def __init__(self, message: str, *, hint: str = "", retryable: bool = False, facts: Facts | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retryable = retryable
        self.facts: Facts = facts or {}

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        if "\n" in self.message:  # ends in a quotation, where a full stop would be wrong
            return f"{self.message.rstrip()}\n{self.hint}"
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{stop} {self.hint}"

    def data(self) -> dict[str, Any]:
        """Returns the structured part of the error for the wire."""
        return {"kind": self.kind, "hint": self.hint, "retryable": self.retryable, **self.facts}


class SecurityError(ToolyardError):
    """The sandbox or the policy refused the action."""

    code = -32001
    kind = "security"

    def __init__(
        self,
        message: str,
        fields: tuple[FieldError, ...] = (),
        *,
        hint: str = "",
        retryable: bool = False,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable, facts=facts)
        self.fields = fields

    @classmethod
    def from_refusal(cls, reason: str) -> SecurityError:
        """Builds the error from a policy's reason, whose last sentence becomes the hint."""
        message, stop, hint = reason.rpartition(". ")
        return cls(f"{message}.", hint=hint) if stop else cls(reason)

    def data(self) -> dict[str, Any]:
        return {**super().data(), **_validation_errors(self.fields)} if self.fields else super().data()


class ValidationError(ToolyardError):
    """The arguments of a call are invalid."""

    code = -32602
    kind = "validation"

    def __init__(self, message: str, fields: tuple[FieldError, ...] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.fields = fields

    @classmethod
    def of(cls, field: str, error: str, *, hint: str = "") -> ValidationError:
        """Builds the error for a single invalid field, the usual case."""
        return cls(f"{field}: {error}", (FieldError(field, error),), hint=hint)

    def data(self) -> dict[str, Any]:
        return {**super().data(), **_validation_errors(self.fields)}


class UnknownToolError(ValidationError):
    """No tool has the requested name. Over MCP this is a protocol error, not a failure of a tool."""


class ToolError(ToolyardError):
    """The tool ran and could not do its work."""

    code = -32603
    kind = "tool"


class ProviderError(ToolError):
    """A model API failed. Its HTTP status, if any, is in `facts`."""


class SystemFault(ToolyardError):  # noqa: N818 - a fault of the machine, not an error of the caller
    """The machine or Toolyard itself failed."""

    code = -32000
    kind = "system"


class ConfigError(ToolyardError):
    """A configuration file is wrong."""

    code = -32000
    kind = "config"

    def __init__(self, message: str, *, where: str = "", hint: str = "", facts: Facts | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint, facts=facts)
        self.where = where


def _validation_errors(fields: tuple[FieldError, ...]) -> dict[str, Any]:
    return {"validation_errors": [{"field": item.field, "error": item.error} for item in fields]}

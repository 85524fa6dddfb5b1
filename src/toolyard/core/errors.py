"""The one error tree. Each error says what happened, why, and what to do next.

    ToolyardError
    ├── SecurityError      -32001  a wall or the policy said no; `fields` says to which arguments, where it is known
    ├── ValidationError    -32602  the arguments cannot be right; `fields` says which and why
    │   └── UnknownToolError       no tool has the name that was called
    ├── ToolError          -32603  the tool ran and could not do it (no such file, no match, ...)
    │   └── ProviderError          the model that the tool asked did not answer
    ├── SystemFault        -32000  the machine or Toolyard itself failed
    └── ConfigError        -32000  a configuration file is wrong; `where` names file and line

`code` is what crosses the wire, `hint` is the next step, `retryable` says whether the same call may succeed later.
`facts` are what else programs want to know: of a model's provider, its `provider_status` and `retry_after`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

Facts: TypeAlias = Mapping[str, str | int | float]


class ErrorForm(StrEnum):
    """How an MCP server answers a tool call that failed."""

    RESULT = "result"
    """A result with `isError: true`, which clients show to their models."""
    JSONRPC = "jsonrpc"
    """A JSON-RPC error, which many clients treat as a failure of the connection."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One argument that cannot be right: `field` names it, `error` says why."""

    field: str
    error: str


class ToolyardError(Exception):
    """Base of every error that Toolyard raises on purpose."""

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
        if "\n" in self.message:  # ends in a quotation, which a full stop would spoil
            return f"{self.message.rstrip()}\n{self.hint}"
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{stop} {self.hint}"

    def data(self) -> dict[str, Any]:
        """The structured half of the error as it crosses the wire."""
        return {"kind": self.kind, "hint": self.hint, "retryable": self.retryable, **self.facts}


class SecurityError(ToolyardError):
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
        """For a refusal by the policy, whose last sentence says what to do instead."""
        message, stop, hint = reason.rpartition(". ")
        return cls(f"{message}.", hint=hint) if stop else cls(reason)

    def data(self) -> dict[str, Any]:
        return {**super().data(), **_validation_errors(self.fields)} if self.fields else super().data()


class ValidationError(ToolyardError):
    code = -32602
    kind = "validation"

    def __init__(self, message: str, fields: tuple[FieldError, ...] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.fields = fields

    @classmethod
    def of(cls, field: str, error: str, *, hint: str = "") -> ValidationError:
        """One field is wrong: the usual case."""
        return cls(f"{field}: {error}", (FieldError(field, error),), hint=hint)

    def data(self) -> dict[str, Any]:
        return {**super().data(), **_validation_errors(self.fields)}


class UnknownToolError(ValidationError):
    """Over MCP, this is misuse of the protocol and no failure of a tool."""


class ToolError(ToolyardError):
    code = -32603
    kind = "tool"


class ProviderError(ToolError):
    """A model behind an API. Its HTTP status, where there was one, is in `facts`."""


class SystemFault(ToolyardError):  # noqa: N818 - a fault of the machine, not an error of the caller
    code = -32000
    kind = "system"


class ConfigError(ToolyardError):
    code = -32000
    kind = "config"

    def __init__(self, message: str, *, where: str = "", hint: str = "", facts: Facts | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint, facts=facts)
        self.where = where


def _validation_errors(fields: tuple[FieldError, ...]) -> dict[str, Any]:
    return {"validation_errors": [{"field": each.field, "error": each.error} for each in fields]}

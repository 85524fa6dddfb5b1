"""Parses and validates the options of a run.

`parse_options` accepts what callers have (the name of a mode, the path of a configuration) and raises a
ValidationError that names the option before anything starts. Options are validated nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

from toolyard.app.execution_mode import ToolInjection
from toolyard.app.toolsets import Toolset, Toolsets, parse_toolsets
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings, environment
from toolyard.config.suggestions import did_you_mean
from toolyard.core.calls import ApprovalCallback
from toolyard.core.errors import ValidationError
from toolyard.core.limits import MIB
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.approval_callback import SyncApprovalCallback
from toolyard.drivers.mcp_host import Host

DEFAULT_TIMEOUT: Final = 1800.0
MAX_TIMEOUT: Final = 7 * 86_400.0
MAX_PROMPT_CHARS: Final = 4 * MIB
"""Characters of a prompt. Some CLIs silently cut input beyond 8 MiB."""


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """Validated options of a run."""

    workspace: str
    model: str = ""
    timeout: float = DEFAULT_TIMEOUT
    """Seconds until the run is ended."""
    mode: PermissionMode | None = None
    tools: Toolsets = Toolset.CLAUDE
    injected: ToolInjection | None = None
    """Selects tools by the configuration's execution mode instead of `tools`."""
    instructions: str = ""
    config: Config = field(default_factory=Config)
    agent: str | None = None
    run: str = ""
    """Id of the run in the audit log; empty for a new one."""
    state: str | None = None
    ask: ApprovalCallback | SyncApprovalCallback | None = None
    """Approval callback where the policy says `ask`. None refuses such actions."""
    program: str = ""
    """The CLI's program; empty to search the PATH."""
    variables: Mapping[str, str] = field(default_factory=environment, repr=False)
    """The user's environment, with the keys."""


def parse_prompt(value: object) -> str:
    """Returns the prompt. Raises ValidationError."""
    prompt = _parse_text("prompt", value)
    if not prompt.strip():
        raise ValidationError.of("prompt", "is empty", hint="Say what to do.")
    return prompt


def check_host(value: object) -> Host | None:
    """Returns the shared host. Raises ValidationError."""
    if value is not None and not isinstance(value, Host):
        raise ValidationError.of("host", "is not a Host", hint="Create one: `with Host() as host:`.")
    return value


def parse_options(workspace: object, given: Mapping[str, object]) -> DriveOptions:
    """Returns the options of a run; None means not given. Raises ValidationError and ConfigError."""
    known = [each.name for each in fields(DriveOptions) if each.name != "workspace"]
    for name in given:
        if name not in known:
            raise ValidationError.of(name, "is not an option of a run", hint=did_you_mean(name, known))
    variables = _parse_variables("variables", given["variables"]) if given.get("variables") is not None else None
    home = Settings.from_environment(variables).home
    parsed: dict[str, Any] = {"workspace": _parse_path("workspace", workspace, home)}
    for name, value in given.items():
        if value is not None or name == "timeout":  # None could be taken for a run without time limit
            parsed[name] = _PARSERS[name](name, value, home)
    return DriveOptions(**parsed)


def _parse_text(name: str, value: object, _: str = "") -> str:
    """Returns a text that every CLI accepts."""
    if not isinstance(value, str):
        raise _type_error(name, value, "text")
    if len(value) > MAX_PROMPT_CHARS:
        raise ValidationError.of(name, "is too long", hint="Put it into a file of the workspace, and name it.")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValidationError.of(name, "contains a lone surrogate", hint="Send text that can be encoded as UTF-8.")
    if name != "prompt" and "\0" in value:
        raise ValidationError.of(name, "holds a NUL character")
    return value


def _parse_model(name: str, value: object, _: str) -> str:
    model = _parse_text(name, value)
    if model.startswith("-"):
        raise ValidationError.of(name, f"{model!r} would be read as an option")
    return model


def _parse_path(name: str, value: object, home: str) -> str:
    """Returns a path with `~` expanded."""
    if not isinstance(value, str | os.PathLike):
        raise _type_error(name, value, "a path")
    path = os.fsdecode(cast("str | os.PathLike[str]", value))
    if not path or "\0" in path:
        raise ValidationError.of(name, "holds a NUL character" if path else "is empty", hint="Name a path.")
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _parse_timeout(name: str, value: object, _: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT:
        return float(value)
    error = f"{value!r} is not a number of seconds, more than 0 and at most {MAX_TIMEOUT:,.0f}"
    raise ValidationError.of(name, error, hint=f"Leave it out for {DEFAULT_TIMEOUT:,.0f} seconds.")


def _parse_mode(name: str, value: object, _: str) -> PermissionMode:
    known = [each.value for each in PermissionMode]
    if not isinstance(value, str):
        raise _type_error(name, value, "a permission mode")
    if value not in known:
        raise ValidationError.of(name, f"{value!r} is not a permission mode", hint=did_you_mean(value, known))
    return PermissionMode(value)


def _parse_tools(name: str, value: object, _: str) -> Toolsets:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise _type_error(name, value, "a set of tools")
    each = [*cast("Iterable[object]", names)]
    if not each or not all(isinstance(one, str) for one in each):
        raise _type_error(name, value, "sets of tools by their names")
    return parse_toolsets(",".join(cast("list[str]", each)))


def _parse_injection(name: str, value: object, _: str) -> ToolInjection:
    if not isinstance(value, ToolInjection):
        raise _type_error(name, value, "an Injection")
    return value


def _parse_config(name: str, value: object, home: str) -> Config:
    """Returns a configuration, loaded from a file if a path is given."""
    return value if isinstance(value, Config) else load_config(_parse_path(name, value, home))


def _parse_ask(name: str, value: object, _: str) -> ApprovalCallback | SyncApprovalCallback:
    if not callable(value):
        raise _type_error(name, value, "a function")
    return cast("ApprovalCallback | SyncApprovalCallback", value)


def _parse_variables(name: str, value: object, _: str = "") -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise _type_error(name, value, "a mapping of variables")
    found = cast("Mapping[object, object]", value)
    for key, content in found.items():
        if not (isinstance(key, str) and isinstance(content, str)):
            raise _type_error(f"{name}[{key!r}]", content, "text")
    return cast("Mapping[str, str]", value)


_PARSERS: Final[Mapping[str, Callable[[str, object, str], object]]] = {
    "model": _parse_model,
    "timeout": _parse_timeout,
    "mode": _parse_mode,
    "tools": _parse_tools,
    "injected": _parse_injection,
    "instructions": _parse_text,
    "config": _parse_config,
    "agent": _parse_text,
    "run": _parse_text,
    "state": _parse_path,
    "ask": _parse_ask,
    "program": lambda name, value, home: _parse_path(name, value, home) if value else "",
    "variables": _parse_variables,
}


def _type_error(name: str, value: object, expected: str) -> ValidationError:
    """Returns an error that names only the type of the value, which may be a secret."""
    return ValidationError.of(name, f"is not {expected} but of the type {type(value).__name__}")

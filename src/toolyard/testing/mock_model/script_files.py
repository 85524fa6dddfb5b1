"""Parses scripts written as JSON: a script is a list of steps, or an object that chooses between scripts.

    {
      "models": {"gemini-a": [...], "gemini-b": {"markers": {"ROUND 2": [...]}, "steps": [...]}},
      "markers": {"a text of the system prompt or of the user": [...]},
      "steps": [...]
    }

`models` is checked first, then `markers`, then `steps`; each is optional, and its values are scripts again. After the
last step the model says `done`. A step is an object:

    {"say": "text", "think": "before it", "calls": [{"tool": "Read", "arguments": {"file_path": "a.txt"}}]}
    {"call": "Read", "arguments": {"file_path": "a.txt"}}       one call; arguments given as text are sent unchanged
    {"fail": 429, "retry_after": 2, "message": "slow down"}     an API error
    {"cut": true}, {"drop": true}, {"hang": true}, {"nonsense": true}, {"empty": true}, {"too_long": true}

The first two also take `"usage": {"input": 100, "output": 20, "cached": 50, "thinking": 5}`, `"delay"` (seconds
before each piece of a stream) and `"ends"` (`length`, `refused`, `malformed`); the others `"times"`. Any other key is
an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from toolyard.core.errors import ConfigError
from toolyard.testing.mock_model.requests import Json
from toolyard.testing.mock_model.scripts import Script, by_marker, by_model, in_turns
from toolyard.testing.mock_model.steps import (
    Call,
    Cut,
    Drop,
    Empty,
    Fail,
    FaultStep,
    Hang,
    Nonsense,
    Step,
    TooLong,
    Turn,
    Usage,
)

T = TypeVar("T")
_FAULTS: Mapping[str, Callable[..., FaultStep]] = {
    "cut": Cut,
    "drop": Drop,
    "hang": Hang,
    "nonsense": Nonsense,
    "empty": Empty,
    "too_long": TooLong,
}
_SCRIPT_KEYS = {"models", "markers", "steps"}
_TURN_KEYS = {"say", "think", "calls", "call", "arguments", "usage", "delay", "ends"}
_FAIL_KEYS = {"fail", "retry_after", "message", "midway", "times"}
_TYPE_NAMES: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
}
_ENDS = ("", "length", "refused", "malformed")


def read_script(path: str) -> Script:
    """Reads a script file. Raises ConfigError if it is missing or invalid."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_script(json.load(file))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", hint="Give the path of a script file."
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}.", hint="Correct the file.") from error


def parse_script(value: Any) -> Script:
    """Returns the script that a JSON value describes. Raises ConfigError."""
    if isinstance(value, list):
        return in_turns(*(parse_step(each) for each in cast("list[Any]", value)))
    chosen = _checked_object(value, _SCRIPT_KEYS, "script")
    script = parse_script(chosen.get("steps", []))
    for key, choose in (("markers", by_marker), ("models", by_model)):
        inner = _require_object(chosen.get(key, {}), key)
        script = choose({name: parse_script(each) for name, each in inner.items()}, script) if inner else script
    return script


def parse_step(value: Any) -> Step:
    """Returns the step that a JSON value describes. Raises ConfigError."""
    found = _require_object(value, "step")
    if "fail" in found:
        _checked_object(found, _FAIL_KEYS, "step")
        after = found.get("retry_after")
        return Fail(
            _typed_value(found, "fail", int, 500),
            None if after is None else _typed_value(found, "retry_after", float, 0.0),
            _typed_value(found, "message", str, ""),
            _typed_value(found, "midway", bool, default=False),
            _typed_value(found, "times", int, 1),
        )
    for name, fault in _FAULTS.items():
        if name in found:
            return fault(times=_typed_value(_checked_object(found, {name, "times"}, "step"), "times", int, 1))
    return _parse_turn(_checked_object(found, _TURN_KEYS, "step"))


def _parse_turn(found: Json) -> Turn:
    calls = [_parse_call(each) for each in _typed_value(found, "calls", list, list[Any]())]
    if "call" in found:
        calls.append(Call(_typed_value(found, "call", str, ""), _parse_arguments(found)))
    ends = found.get("ends", "")
    if ends not in _ENDS:
        raise ConfigError(
            f"A step has `ends`: {ends!r}.", hint=f"It must be one of {', '.join(filter(None, _ENDS))}."
        )
    if not (found.keys() & {"say", "think", "call", "calls", "ends"}):
        raise ConfigError(f"A step does nothing: {json.dumps(found)}.", hint='Write {"say": "…"} or {"call": "…"}.')
    return Turn(
        _typed_value(found, "say", str, ""),
        _typed_value(found, "think", str, ""),
        tuple(calls),
        _parse_usage(found["usage"]) if "usage" in found else None,
        ends,
        _typed_value(found, "delay", float, 0.0),
    )


def _parse_call(value: Any) -> Call:
    found = _checked_object(value, {"tool", "arguments"}, "call")
    return Call(_typed_value(found, "tool", str, ""), _parse_arguments(found))


def _parse_arguments(found: Json) -> Json | str:
    arguments = found.get("arguments", {})
    return arguments if isinstance(arguments, str) else _require_object(arguments, "call's arguments")


def _parse_usage(value: Any) -> Usage:
    found = _checked_object(value, {"input", "output", "cached", "thinking"}, "usage")
    return Usage(*(_typed_value(found, key, int, 0) for key in ("input", "output", "cached", "thinking")))


def _typed_value(found: Json, key: str, kind: type[T], default: T) -> T:
    """Returns the value at a key. Raises ConfigError if it has the wrong type."""
    value = found.get(key, default)
    value = float(value) if kind is float and type(value) is int else value
    if type(value) is not kind:
        raise ConfigError(f"{key!r} is {json.dumps(value)}.", hint=f"It must be {_TYPE_NAMES[kind]}.")
    return value


def _checked_object(value: Any, known: set[str], what: str) -> Json:
    found = _require_object(value, what)
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ConfigError(
            f"A {what} has an unknown key {unknown[0]!r}.", hint=f"Known keys: {', '.join(sorted(known))}."
        )
    return found


def _require_object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise ConfigError(f"A {what} must be an object, not {json.dumps(value)}.", hint="Put its keys into braces.")
    return cast("Json", value)

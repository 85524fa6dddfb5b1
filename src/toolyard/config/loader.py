"""Loads `Config` from a YAML file. Every error names the file and the line and suggests a correction.

Without a file, the defaults apply. `${VAR}` and `${VAR:-default}` in text values are expanded here, in the host
process; `$${` means a literal `${`. Server entries keep their variables until the server is started (`expansion`).
Errors never contain values, which may be secrets. A discovered file that the user did not name gets no variables.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pydantic

from toolyard.config.expansion import expand_text
from toolyard.config.models import Agent, Config, Location, ToolyardSection
from toolyard.config.section import REFUSED, UNKNOWN_KEY
from toolyard.config.settings import environment
from toolyard.config.source_text import read_text
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError
from toolyard.core.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from toolyard.config.yaml_tree import LocatedValue

CONFIG_NAME = "toolyard.yaml"
MAX_CONFIG_BYTES = 1 * MIB
MAX_PROBLEMS_SHOWN = 5
SERVER_FILE_SUFFIXES = (".json", ".jsonc", ".toml")
"""File name extensions of other programs' server files; configurations are YAML."""

_SINGLE_AGENT_KEY = "agent"
"""The key for a single agent, in place of the list `agents`."""
_SERVER_KEYS = frozenset({"available_mcp_servers", "mcp_servers"})
_RUN_ONLY_KEYS = frozenset({"api_key", "base_url", "endpoint", "headers", "model", "system_message"})
"""Keys that only runs use, and runs name their file explicitly: in a discovered file these keys are not expanded."""

_EXPECTED_BY_ERROR = {
    "string_type": "a string (quote it if it is meant as text)",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "greater_than": "a number greater than {gt:g}",
    "greater_than_equal": "a number that is at least {ge:g}",
    "tuple_type": "a list",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-'",
    "expected": "{expected}",
}
_TOO_SMALL = frozenset({"greater_than", "greater_than_equal"})


def find_config(folder: str) -> str | None:
    """Returns the path of the folder's configuration file, or None if there is none."""
    path = os.path.join(folder, CONFIG_NAME)
    return path if os.path.isfile(path) else None


def load_config(path: str | None, *, env: Mapping[str, str] | None = None, is_found: bool = False) -> Config:
    """Returns the configuration in a file.

    Args:
        path: The file, or None for the defaults. A server file of another program (such as `.mcp.json`) is accepted
            too: the defaults with its servers.
        env: The variables for `${NAME}` in the file. Default: the environment.
        is_found: Whether the user did not name the file. Such a file gets no variables: its values are shown to
            clients and must not reveal the environment.

    Returns:
        The configuration; the defaults if the file is empty.

    Raises:
        ConfigError: The file cannot be read or is invalid. The message names the line.

    Example:
        ```python
        config = load_config("toolyard.yaml")
        print([agent.id for agent in config.agents])
        ```

    """
    if path is None:
        return Config()
    if path.endswith(SERVER_FILE_SUFFIXES):
        from toolyard.config.server_files import is_server_file  # most configurations are YAML

        if is_server_file(path):
            section = ToolyardSection(server_files=(os.path.abspath(path),))
            return Config(toolyard=section).model_copy(update={"source": os.path.abspath(path)})
    return parse_config(read_text(path, max_bytes=MAX_CONFIG_BYTES), path, env=env, is_found=is_found)


def parse_config(text: str, path: str, *, env: Mapping[str, str] | None = None, is_found: bool = False) -> Config:
    """Parses text that is, or will be, the content of the configuration file `path`."""
    from toolyard.config.yaml_tree import parse_yaml  # most starts read no file

    tree = parse_yaml(text, name=path)
    source: dict[str, object] = {"source": os.path.abspath(path)}
    if tree is None or tree.value is None:
        return Config().model_copy(update=source)
    if not isinstance(tree.value, dict):
        raise ConfigError("the file must be a mapping of keys", where=f"{path}:{tree.line}", hint=_known_keys_hint())
    variables = environment() if env is None else env
    kept = _SERVER_KEYS | _RUN_ONLY_KEYS if is_found else _SERVER_KEYS
    _expand_variables(tree, None if is_found else variables, path, kept)
    _normalize_spellings(tree, path)
    source["templates"] = dict(_iter_templates(tree, ()))
    try:
        return Config.model_validate(tree.to_plain()).model_copy(update=source)
    except pydantic.ValidationError as error:
        raise _config_error(error, tree, path) from None


def line_of(path: str, location: Sequence[int | str]) -> int:
    """Returns the line of a value in a file that was loaded before; 0 if the file has changed since."""
    from toolyard.config.yaml_tree import parse_yaml

    try:
        tree = parse_yaml(read_text(path, max_bytes=MAX_CONFIG_BYTES), name=path)
        if tree is None or not isinstance(tree.value, dict):
            return 0
        _normalize_spellings(tree, path)
    except ConfigError:
        return 0
    return _locate_node(tree, location)[0]


def _known_keys_hint() -> str:
    return f"Top-level keys: {', '.join(sorted(Config.keys_of_file()))}."


def _expand_variables(
    node: LocatedValue, variables: Mapping[str, str] | None, path: str, unexpanded_keys: frozenset[str]
) -> None:
    """Expands variables in place, except below `unexpanded_keys`."""
    if isinstance(node.value, str):
        text = expand_text(node.value, variables, where=f"{path}:{node.line}")
        if text != node.value:
            node.value, node.template = text, node.value
    elif isinstance(node.value, list):
        for item in node.value:
            _expand_variables(item, variables, path, unexpanded_keys)
    elif isinstance(node.value, dict):
        for key, item in node.value.items():
            if key not in unexpanded_keys:
                _expand_variables(item, variables, path, unexpanded_keys)


def _iter_templates(node: LocatedValue, at: Location) -> Iterator[tuple[Location, str]]:
    """Yields the location and original text of every value in which variables were expanded."""
    if node.template:
        yield at, node.template
    elif isinstance(node.value, list):
        for number, item in enumerate(node.value):
            yield from _iter_templates(item, (*at, number))
    elif isinstance(node.value, dict):
        for key, item in node.value.items():
            yield from _iter_templates(item, (*at, key))


def _normalize_spellings(tree: LocatedValue, path: str) -> None:
    """Renames the keys `massgen` and `agent` to those of the model and keeps their lines."""
    from toolyard.config.yaml_tree import LocatedValue

    keys = tree.value
    assert isinstance(keys, dict)  # noqa: S101 - checked by the only caller
    for other, usual in (("massgen", "toolyard"), (_SINGLE_AGENT_KEY, "agents")):
        if other not in keys:
            continue
        line = tree.key_lines[other]
        if usual in keys:
            raise ConfigError(
                f'"{other}" and "{usual}" are two spellings of one key',
                where=f"{path}:{line}",
                hint="Keep one of them.",
            )
        value = keys.pop(other)
        tree.key_lines[usual] = tree.key_lines.pop(other)
        if other == _SINGLE_AGENT_KEY and value.value is not None:
            value = LocatedValue(value.line, [value], {})
        keys[usual] = replace(value, written_as=other)
    # An empty section (`ui:` with everything commented out) means its defaults.
    for key in Config.keys_of_file():
        if key in keys and keys[key].value is None:
            del keys[key]


def _config_error(error: pydantic.ValidationError, tree: LocatedValue, path: str) -> ConfigError:
    problems: list[tuple[int, str, str]] = []
    for detail in error.errors(include_url=False, include_input=True):
        problems.extend(_error_problems(detail, tree))
    problems.sort(key=lambda problem: problem[0])
    line, message, hint = problems[0]
    others = [f"{path}:{at}: {text} {tip}".rstrip() for at, text, tip in problems[1:MAX_PROBLEMS_SHOWN]]
    if len(problems) > MAX_PROBLEMS_SHOWN:
        others.append(f"... and {len(problems) - MAX_PROBLEMS_SHOWN} more.")
    return ConfigError(message, where=f"{path}:{line}", hint="\n".join([hint, *others]).strip())


def _error_problems(detail: ErrorDetails, tree: LocatedValue) -> list[tuple[int, str, str]]:
    """Returns line, message and hint of each problem in one validation error."""
    context: dict[str, Any] = detail.get("ctx", {})
    line, spelled, node = _locate_node(tree, (*detail["loc"], *context.get("at", ())))
    if detail["type"] == UNKNOWN_KEY:
        from toolyard.config.misplaced_keys import find_misplaced_keys

        lines = node.key_lines if node else {}
        place = f' in "{spelled}"' if spelled else ""
        unknown: list[str] = context["unknown"]
        found: list[tuple[int, str, str]] = []
        # Agents are in a list, so a full key path cannot be suggested for them.
        below = find_misplaced_keys(Agent, unknown) if context["section"] is Agent else None
        if below is not None:
            unknown = [key for key in unknown if key not in below.keys]
            named = ", ".join(f'"{key}"' for key in below.keys)
            message = f"unknown key{'' if len(below.keys) == 1 else 's'} {named}{place}."
            found.append((min(lines.get(key, line) for key in below.keys), message, below.hint))
        return found + [
            (lines.get(key, line), f'unknown key "{key}"{place}.', _suggest_key(key, spelled, context["valid"]))
            for key in unknown
        ]
    if detail["type"] == "missing":
        return [(line, f'"{spelled}" lacks the key "{detail["loc"][-1]}".', "Add it.")]
    if detail["type"] in {"enum", "literal_error"}:
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        hint = "" if node is not None and node.template else did_you_mean(str(detail["input"]), choices)
        return [(line, f'"{spelled}" must be one of {", ".join(choices)}.', hint)]
    template = _EXPECTED_BY_ERROR.get(detail["type"])
    shows_value = template is None or detail["type"] in _TOO_SMALL
    if shows_value and node is not None and any(_iter_templates(node, ())):
        return [(line, f'"{spelled}": {unusable_value_message(node.template)}', "")]
    if detail["type"] == REFUSED:
        return [(line, f'"{spelled}": {detail["msg"]}', context.get("hint", ""))]
    expected = template.format(**context) if template else detail["msg"]
    return [(line, f'"{spelled}": expected {expected}, found {_describe_found(detail)}.', "")]


def unusable_value_message(template: str = "") -> str:
    """Returns the message for an invalid value with expanded variables, without revealing the value."""
    shown = f" ({template})" if template else ""
    return f"is invalid with the current values of its variables{shown}."


def _suggest_key(key: str, found_in: str, valid: Sequence[str]) -> str:
    """Suggests a key: one of the same name elsewhere, otherwise a similar one here."""
    from toolyard.config.misplaced_keys import suggest_key_path

    return suggest_key_path(key, found_in, Config) or did_you_mean(key, valid)


def _describe_found(detail: ErrorDetails) -> str:
    """Describes the value that was found. A number that is too small may be shown: numbers are never secrets."""
    value: object = detail["input"]
    return str(value) if detail["type"] in _TOO_SMALL else _describe_type(value)


def _describe_type(value: object) -> str:
    """Returns the kind of a value. Never the value itself: it may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    kinds: dict[type, str] = {bool: "true or false", str: "text", int: "a number", float: "a number"}
    return kinds.get(type(value), type(value).__name__)


def _locate_node(tree: LocatedValue, location: Sequence[int | str]) -> tuple[int, str, LocatedValue | None]:
    """Returns the line, the key path as written, and the node of a location in the tree."""
    node, line, spelled = tree, tree.line, ""
    for step in location:
        if isinstance(node.value, dict):
            # Servers given by name were converted to a list: the number is the position in the mapping.
            key = str(step)
            if isinstance(step, int) and step < len(node.value):
                key = list(node.value)[step]
            if key not in node.value:
                continue
            line, node = node.key_lines[key], node.value[key]
            key = node.written_as or key
            spelled = f"{spelled}.{key}" if spelled else key
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            place = "" if node.written_as == _SINGLE_AGENT_KEY else f"[{step}]"
            node = node.value[step]
            line, spelled = node.line, f"{spelled}{place}"
    return line, spelled, node

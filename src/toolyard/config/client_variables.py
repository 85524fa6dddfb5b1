"""Translates the variable syntaxes of other programs' server entries into the one that `expansion` uses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from toolyard.config.expansion import INPUT_PREFIX

VariableSyntax = Literal["ours", "braces", "editor", "shell", "curly", "none"]
"""
    ours     unchanged
    braces   ${VAR}, ${VAR:-default}, ${env:VAR}
    editor   as braces, and ${input:x}, ${workspaceFolder}, ${userHome}
    shell    as braces, and $VAR
    curly    {env:VAR}, {file:path}
    none     no variables: all text is literal
"""

_BRACES: Final = re.compile(r"\$\$\{|\$\{((?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}|file:[^}]+\})?")
_BARE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_CURLY: Final = re.compile(r"\{(env|file):([^}]+)\}")
_EDITOR: Final = re.compile(
    r"\$\{(input:[^}]+|workspaceFolder|workspaceFolderBasename|workspaceRoot|userHome|pathSeparator|/)\}"
)


def input_variable(asked: str) -> str:
    """Returns the name of the variable that replaces an input an editor would prompt for."""
    return INPUT_PREFIX + re.sub(r"[^A-Z0-9]", "_", asked.upper())


def variable_translator(
    variables: VariableSyntax, inputs: Mapping[str, str | None], project: str, home: str
) -> Callable[[str], str]:
    """Returns a function that translates the variables of a text. `inputs` maps prompts to their defaults."""
    places = {"workspaceFolder": project, "workspaceRoot": project, "userHome": home, "/": os.sep}
    places |= {"workspaceFolderBasename": os.path.basename(project), "pathSeparator": os.sep}

    def replace_editor_variable(match: re.Match[str]) -> str:
        word = match[1]
        if not word.startswith("input:"):
            return places[word].replace("${", "$${")
        asked = word.removeprefix("input:")
        default = inputs.get(asked)
        name = input_variable(asked)
        return f"${{{name}}}" if default is None or "}" in default else f"${{{name}:-{default}}}"

    def replace_curly_variable(match: re.Match[str]) -> str:
        # In this syntax an unset variable is empty.
        return f"${{{match[2].strip()}:-}}" if match[1] == "env" else f"${{file:{match[2]}}}"

    def translate_text(value: str) -> str:
        if variables == "ours":
            return value
        if variables in {"none", "curly"}:
            value = value.replace("${", "$${")
            return _CURLY.sub(replace_curly_variable, value) if variables == "curly" else value
        if variables == "editor":
            value = _EDITOR.sub(replace_editor_variable, value)
        if variables == "shell":
            value = _BARE.sub(r"${\1}", value)
        # These programs read a `${` that is not a variable as text.
        return _BRACES.sub(lambda match: match[0] if match[1] or match[0] == "$${" else "$${", value)

    return translate_text

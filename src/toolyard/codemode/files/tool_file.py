"""Generates the Python file of a tool: types, a signature, the description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.codemode.files.literals import (
    clip_text,
    normalize_text,
    python_literal,
    render_comment,
    render_docstring,
)
from toolyard.codemode.files.python_types import TypeDefinitions
from toolyard.codemode.files.schema_to_type import SchemaTyper
from toolyard.codemode.files.schemas import as_schema
from toolyard.codemode.files.signatures import Parameter, ToolSignature, build_signature, render_renames
from toolyard.core.upstream import ToolSchema

LONGEST_DESCRIPTION = 16_000
"""Characters of a description in the docstring. A longer one is written to a text file beside it."""
LONGEST_TEXT = 1_000_000
_LONGEST_SUMMARY = 120
_WIDTH = 110
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """The location of a tool's file, and the two lines that search shows."""

    name: str
    module: str
    function: str
    path: str
    signature: str
    summary: str


@dataclass(frozen=True, slots=True)
class CompiledServer:
    """The files of one folder. The same listing always gives the same bytes."""

    server: str
    folder: str
    files: Mapping[str, str]
    """File name -> text."""
    tools: tuple[CompiledTool, ...]
    version: str = ""


@dataclass(frozen=True, slots=True)
class ToolFileLocation:
    """Where a tool file is written, and the decorator it uses."""

    root: str
    """`servers` or `tools`."""
    folder: str
    decorator: str
    """The decorator call, without its closing bracket."""
    kind: str
    """`tool` or `custom_tool`, which the file imports."""


@dataclass(frozen=True, slots=True)
class ToolFile:
    """A generated file."""

    tool: CompiledTool
    text: str
    rest: str = ""
    """The complete description, if the docstring has only its beginning."""


def render_tool_file(
    tool: ToolSchema, function: str, location: ToolFileLocation, inferred: Any = None, twin: str = ""
) -> ToolFile:
    """Returns the file of one tool. `twin` names the first tool of the same name, if a server lists a name twice."""
    definitions = TypeDefinitions({function})
    arguments = build_signature(tool.input_schema, definitions)
    plain = (
        "Result" if location.kind == "tool" else definitions.any_type().text
    )  # a custom tool returns its plain value
    returns, guessed = _return_annotation(tool, function, inferred, definitions, plain)
    described = normalize_text(str(tool.description or "") or str(tool.title or ""))
    path = f"{location.root}/{location.folder}/{function}"
    text = _docstring_text(described, arguments, path, guessed=guessed, twin=twin)
    lines = ["from __future__ import annotations"]
    used = definitions.typing_imports([*arguments.parts, returns])
    if used:
        lines.append(f"from typing import {', '.join(used)}")
    imports = f"Result, {location.kind}" if returns.startswith("Result") else location.kind
    lines.append(f"from toolyard_runtime.tool import {imports}")
    for made in definitions.texts:
        lines += ["", made]
    lines += [
        "",
        f"@{location.decorator}{render_renames(arguments.renamed_arguments)})",
        _function_header(function, arguments, returns),
    ]
    lines += [render_docstring(text), "    ...", ""] if text else ["    ...", ""]
    compiled = CompiledTool(
        tool.name,
        function,
        function,
        f"{path}.py",
        f"{function}({', '.join(arguments.parts)}) -> {returns}",
        first_sentence(described, tool.name),
    )
    rest = described[:LONGEST_TEXT] if len(described) > LONGEST_DESCRIPTION else ""
    return ToolFile(compiled, "\n".join(lines), rest)


def first_sentence(description: str, name: str) -> str:
    """Returns the first sentence of the description, on one line."""
    first = description[: _LONGEST_SUMMARY * 4].partition("\n\n")[0]
    line = render_comment(_SENTENCE.split(first, 1)[0])
    return clip_text(line or render_comment(name.replace("_", " ").replace("-", " ")), _LONGEST_SUMMARY)


def _return_annotation(
    tool: ToolSchema, function: str, inferred: Any, definitions: TypeDefinitions, plain: str
) -> tuple[str, bool]:
    """Returns the return annotation, and whether it was inferred from a real result."""
    hint = f"{function} result"
    if isinstance(tool.output_schema, dict) and tool.output_schema:
        made = SchemaTyper(tool.output_schema, definitions, is_output=True).type_of({"$ref": "#"}, hint)
        return made.text, False
    if as_schema(inferred):
        made = SchemaTyper(inferred, definitions, is_output=True).type_of({"$ref": "#"}, hint)
        if not made.is_any:
            return f"Result[{made.text}]", True
    return plain, False


def _function_header(function: str, arguments: ToolSignature, returns: str) -> str:
    line = f"async def {function}({', '.join(arguments.parts)}) -> {returns}:"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {part},\n" for part in arguments.parts)
    if arguments.rest:
        inner = inner[:-2] + "\n"  # Python allows no comma after **
    return f"async def {function}(\n{inner}) -> {returns}:"


def _docstring_text(described: str, arguments: ToolSignature, path: str, *, guessed: bool, twin: str) -> str:
    """Returns the description and the notes about arguments."""
    parts = [described]
    if len(described) > LONGEST_DESCRIPTION:
        more = len(described) - LONGEST_DESCRIPTION
        parts = [f"{described[:LONGEST_DESCRIPTION]}…\n\n({more} more characters: {path}.txt)"]
    if twin:
        parts.append(
            f"The server lists this name twice; {twin} is the other. The server decides which one a call reaches."
        )
    if len(arguments.needs) > 1:
        parts.append(f"Give one of: {'; '.join(arguments.needs)}.")
    notes = [_argument_lines(one) for one in (*arguments.required, *arguments.optional) if one.note]
    if notes:
        parts.append("\n".join(["Args:", *notes]))
    if guessed:
        parts.append("Returns:\n    The type of `.structured` is inferred from a real result.")
    return "\n\n".join(part for part in parts if part)


def _argument_lines(one: Parameter) -> str:
    lines = one.note.split("\n")
    return "\n".join([f"    {one.name}: {lines[0]}", *(f"        {line}" if line else "" for line in lines[1:])])


def decorator_call(kind: str, *names: str) -> str:
    """Returns the beginning of a decorator call. The names are always text."""
    return f"{kind}({', '.join(python_literal(name) or repr('') for name in names)}"

"""One tool as a Python file that is short to read: types, a signature, the description."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from toolyard.codemode.files.compiled import CompiledTool
from toolyard.codemode.files.literals import clipped, comment, docstring, literal, tidy
from toolyard.codemode.files.python_types import Definitions
from toolyard.codemode.files.schema_to_type import Typer
from toolyard.codemode.files.schemas import as_schema
from toolyard.codemode.files.signatures import Parameter, Signature, renaming, signature
from toolyard.core.upstream import ToolSchema

LONGEST_DESCRIPTION = 16_000
"""Characters of a description in the docstring. The whole of a longer one stands in a text file beside."""
LONGEST_TEXT = 1_000_000
_LONGEST_SUMMARY = 120
_WIDTH = 110
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool file will stand and what stands behind it."""

    root: str
    """`servers` or `tools`."""
    folder: str
    decorator: str
    """The call that makes it a tool, without its closing bracket."""
    kind: str
    """`tool` or `custom_tool`, which the file imports."""


@dataclass(frozen=True, slots=True)
class ToolFile:
    tool: CompiledTool
    text: str
    rest: str = ""
    """The whole description, where the docstring has only its beginning."""


def tool_file(tool: ToolSchema, function: str, place: Place, inferred: Any = None, twin: str = "") -> ToolFile:
    """The file of one tool. `twin` names the first tool of the same name, where a server lists a name twice."""
    definitions = Definitions({function})
    arguments = signature(tool.input_schema, definitions)
    plain = "Result" if place.kind == "tool" else definitions.any().text  # a custom tool returns what it returns
    returns, guessed = _returns(tool, function, inferred, definitions, plain)
    described = tidy(str(tool.description or "") or str(tool.title or ""))
    path = f"{place.root}/{place.folder}/{function}"
    text = _document(described, arguments, path, guessed=guessed, twin=twin)
    lines = ["from __future__ import annotations"]
    used = definitions.used_in([*arguments.parts, returns])
    if used:
        lines.append(f"from typing import {', '.join(used)}")
    imports = f"Result, {place.kind}" if returns.startswith("Result") else place.kind
    lines.append(f"from toolyard_runtime.tool import {imports}")
    for made in definitions.texts:
        lines += ["", made]
    lines += ["", f"@{place.decorator}{renaming(arguments.renamed)})", _head(function, arguments, returns)]
    lines += [docstring(text), "    ...", ""] if text else ["    ...", ""]
    compiled = CompiledTool(
        tool.name,
        function,
        function,
        f"{path}.py",
        f"{function}({', '.join(arguments.parts)}) -> {returns}",
        summary(described, tool.name),
    )
    rest = described[:LONGEST_TEXT] if len(described) > LONGEST_DESCRIPTION else ""
    return ToolFile(compiled, "\n".join(lines), rest)


def summary(description: str, name: str) -> str:
    """The first sentence, on one line."""
    first = description[: _LONGEST_SUMMARY * 4].partition("\n\n")[0]
    line = comment(_SENTENCE.split(first, 1)[0])
    return clipped(line or comment(name.replace("_", " ").replace("-", " ")), _LONGEST_SUMMARY)


def _returns(
    tool: ToolSchema, function: str, inferred: Any, definitions: Definitions, plain: str
) -> tuple[str, bool]:
    """The annotation of what comes back, and whether it was guessed from a real result."""
    hint = f"{function} result"
    if isinstance(tool.output_schema, dict) and tool.output_schema:
        made = Typer(tool.output_schema, definitions, reads=True).type_of({"$ref": "#"}, hint)
        return made.text, False
    if as_schema(inferred):
        made = Typer(inferred, definitions, reads=True).type_of({"$ref": "#"}, hint)
        if not made.is_any:
            return f"Result[{made.text}]", True
    return plain, False


def _head(function: str, arguments: Signature, returns: str) -> str:
    line = f"async def {function}({', '.join(arguments.parts)}) -> {returns}:"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {part},\n" for part in arguments.parts)
    if arguments.rest:
        inner = inner[:-2] + "\n"  # Python takes no comma after **
    return f"async def {function}(\n{inner}) -> {returns}:"


def _document(described: str, arguments: Signature, path: str, *, guessed: bool, twin: str) -> str:
    """The description, then what has to be known of the arguments."""
    parts = [described]
    if len(described) > LONGEST_DESCRIPTION:
        more = len(described) - LONGEST_DESCRIPTION
        parts = [f"{described[:LONGEST_DESCRIPTION]}…\n\n({more} more characters: {path}.txt)"]
    if twin:
        parts.append(
            f"The server lists this name twice; {twin} is the other. Which of them a call reaches, it decides."
        )
    if len(arguments.needs) > 1:
        parts.append(f"Give one of: {'; '.join(arguments.needs)}.")
    notes = [_argument(one) for one in (*arguments.required, *arguments.optional) if one.note]
    if notes:
        parts.append("\n".join(["Args:", *notes]))
    if guessed:
        parts.append("Returns:\n    The type of `.structured` is inferred from a real result.")
    return "\n\n".join(part for part in parts if part)


def _argument(one: Parameter) -> str:
    lines = one.note.split("\n")
    return "\n".join([f"    {one.name}: {lines[0]}", *(f"        {line}" if line else "" for line in lines[1:])])


def decorator(kind: str, *names: str) -> str:
    """The beginning of a decorator's call. Names that are no text at all cannot come here."""
    return f"{kind}({', '.join(literal(name) or repr('') for name in names)}"

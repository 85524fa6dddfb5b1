"""The input and output of the index, and the searched text of a tool.

Schemas are untrusted text of any size and shape, so each field is read up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from toolyard.core.upstream import ToolSchema

_MAX_CHARACTERS = 6_000
"""Per field. The purpose of a tool is stated early; a megabyte of description would drown others."""
_MAX_PARAMETERS = 300
_MAX_DEPTH = 4
_MAX_VALUES = 30
"""Per enum."""
_MEANING_CHARACTERS = 400
_MEANING_PARAMETERS = 12
_ABOUT_CHARACTERS = 250
_ABOUT_TOOLS = 40
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]+")


@dataclass(frozen=True, slots=True)
class ToolDoc:
    """One tool as it is indexed."""

    server: str
    tool: str
    path: str
    """Path of the tool file, such as `servers/github/create_issue.py`."""
    signature: str
    summary: str
    schema: ToolSchema


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. `score` is between 0 and 1 and only comparable within one search."""

    server: str
    tool: str
    path: str
    score: float
    summary: str
    signature: str
    also: tuple[str, ...] = ()
    """Paths of equivalent tools on other servers, best first."""


@dataclass(frozen=True, slots=True)
class SearchFields:
    """The searched text of a tool, from the most to the least significant field."""

    server: str
    name: str
    description: str
    parameters: str
    details: str
    """Descriptions of the parameters, and their enum values."""

    @classmethod
    def from_doc(cls, doc: ToolDoc) -> SearchFields:
        names: list[str] = []
        details: list[str] = []
        room = _MAX_CHARACTERS
        for name, parameter in _parameters(doc.schema.input_schema, _MAX_DEPTH):
            names.append(name[:_MAX_CHARACTERS])
            for text in _parameter_texts(parameter):
                details.append(text[:room])
                room -= len(details[-1])
            if len(names) >= _MAX_PARAMETERS:
                break
        description = doc.schema.description or doc.schema.title or doc.summary
        return cls(
            doc.server,
            doc.tool[:_MAX_CHARACTERS],
            description[:_MAX_CHARACTERS],
            " ".join(names)[:_MAX_CHARACTERS],
            " ".join(details),
        )

    def texts(self) -> tuple[str, str, str, str, str]:
        return self.server, self.name, self.description, self.parameters, self.details


def tool_embedding_text(doc: ToolDoc) -> str:
    """Returns a short text about the tool for the embedding model, which reads little more than a hundred words."""
    description = " ".join((doc.schema.description or doc.summary)[: 4 * _MEANING_CHARACTERS].split())
    names = [name for name, _ in islice(_parameters(doc.schema.input_schema, 2), _MEANING_PARAMETERS)]
    text = f"{split_identifier(doc.server)}: {split_identifier(doc.tool)}. {description[:_MEANING_CHARACTERS]}"
    return f"{text} Parameters: {', '.join(map(split_identifier, names))}" if names else text


def server_embedding_text(server: str, instructions: str, docs: Sequence[ToolDoc]) -> str:
    """Returns a short text about the server for the embedding model: its instructions, and the names of its tools."""
    names = ", ".join(split_identifier(doc.tool) for doc in docs[:_ABOUT_TOOLS])
    text = " ".join(instructions[: 4 * _ABOUT_CHARACTERS].split())[:_ABOUT_CHARACTERS]
    return f"{split_identifier(server)}: {text} Tools: {names}"


def split_identifier(name: str) -> str:
    """Splits `createPullRequest` into `create Pull Request`."""
    return _JOINT.sub(" ", name)


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields every named property, nested ones after their parents."""
    if depth == 0 or not isinstance(schema, Mapping):
        return
    known = cast("Mapping[str, Any]", schema)
    properties = known.get("properties")
    if isinstance(properties, Mapping):
        for name, parameter in cast("Mapping[Any, Any]", properties).items():
            described: Mapping[str, Any] = (
                cast("Mapping[str, Any]", parameter) if isinstance(parameter, Mapping) else {}
            )
            yield str(name), described
            yield from _parameters(described, depth - 1)
    yield from _parameters(known.get("items"), depth - 1)


def _parameter_texts(parameter: Mapping[str, Any]) -> Iterator[str]:
    description = parameter.get("description")
    if isinstance(description, str):
        yield description
    values = parameter.get("enum")
    if isinstance(values, list):
        yield " ".join(str(value)[:100] for value in cast("list[Any]", values)[:_MAX_VALUES])

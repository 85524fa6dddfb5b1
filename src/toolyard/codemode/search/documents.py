"""What goes into the index and what comes out of it, and which text of a tool is searched.

Everything in a schema is a stranger's text of any size and shape, so each field is read up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from toolyard.core.upstream import ToolSchema

_MAX_CHARACTERS = 6_000
"""Of one field. What a tool is for is said early; a megabyte of description would only drown the others."""
_MAX_PARAMETERS = 300
_MAX_DEPTH = 4
_MAX_VALUES = 30
"""Of one enum."""
_MEANING_CHARACTERS = 400
_MEANING_PARAMETERS = 12
_ABOUT_CHARACTERS = 250
_ABOUT_TOOLS = 40
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]+")


@dataclass(frozen=True, slots=True)
class ToolDoc:
    """One tool as the index takes it in."""

    server: str
    tool: str
    path: str
    """Of the tool file, such as `servers/github/create_issue.py`."""
    signature: str
    summary: str
    schema: ToolSchema


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool that was found. `score` lies between 0 and 1; it compares the hits of one search and nothing else."""

    server: str
    tool: str
    path: str
    score: float
    summary: str
    signature: str
    also: tuple[str, ...] = ()
    """Paths of tools that do the same on other servers, best first."""


@dataclass(frozen=True, slots=True)
class SearchFields:
    """The searched text of a tool, from what says most to what says least."""

    server: str
    name: str
    description: str
    parameters: str
    details: str
    """What the parameters' descriptions say, and the values they may take."""

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
    """The tool in a few words, as the embedding model reads it; the model looks at little more than a hundred."""
    description = " ".join((doc.schema.description or doc.summary)[: 4 * _MEANING_CHARACTERS].split())
    names = [name for name, _ in islice(_parameters(doc.schema.input_schema, 2), _MEANING_PARAMETERS)]
    told = f"{split_identifier(doc.server)}: {split_identifier(doc.tool)}. {description[:_MEANING_CHARACTERS]}"
    return f"{told} Parameters: {', '.join(map(split_identifier, names))}" if names else told


def server_embedding_text(server: str, said: str, docs: Sequence[ToolDoc]) -> str:
    """The server in a few words, as the embedding model reads it: what it says of itself, and what its tools are."""
    names = ", ".join(split_identifier(doc.tool) for doc in docs[:_ABOUT_TOOLS])
    told = " ".join(said[: 4 * _ABOUT_CHARACTERS].split())[:_ABOUT_CHARACTERS]
    return f"{split_identifier(server)}: {told} Tools: {names}"


def split_identifier(name: str) -> str:
    """`createPullRequest` as `create Pull Request`."""
    return _JOINT.sub(" ", name)


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every named property, nested ones after their parents."""
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

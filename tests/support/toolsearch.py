"""Questions with known answers, for tests and benchmarks of the tool search, from a checkout of the sources.

Where they come from: `tests/data/toolsearch/SOURCE.md`. A tool's id is `server::tool`.
"""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.data_files import lines_of
from tests.support.universe import universe
from toolyard.codemode.search import ToolDoc, ToolIndex
from toolyard.core.upstream import ToolSchema

_DATA = "tests/data/toolsearch"
_OWN = "own"
_DESCRIBED = ("livemcpbench", "mcp_pool")
"""The sets that come with descriptions of their servers."""
_FURTHER = 300
"""Tools that are looked at for a ranking of servers; a server is as good as its best tool."""

Tools = Mapping[str, Sequence[ToolSchema]]
"""By server."""
Search = Callable[[str, int], Sequence[str]]
"""The ids of the best tools for a text, best first."""


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    groups: tuple[frozenset[str], ...]
    """For each tool that is needed, the ids that will do."""
    servers: frozenset[str]
    task: str = ""
    """Questions of one task are judged together, by all that they found."""
    kind: str = ""


@functools.cache
def tools(name: str) -> Tools:
    """`livemcpbench`, `mcpbench`, `mcp_pool`, or `own`: the captured servers."""
    if name == _OWN:
        return {listing.server: listing.tools for listing in universe()}
    found: dict[str, list[ToolSchema]] = {}
    for row in _rows(f"{name}.tools"):
        schema = ToolSchema(row["name"], row["description"] or "", row["input_schema"] or {})
        found.setdefault(row["server"], []).append(schema)
    return found


@functools.cache
def questions(name: str) -> tuple[Question, ...]:
    return tuple(
        Question(
            row["text"],
            tuple(frozenset(group) for group in row["groups"]),
            frozenset(row["servers"]),
            row.get("task", ""),
            row.get("kind", ""),
        )
        for row in _rows(f"{name}.queries")
    )


@functools.cache
def instructions(name: str) -> Mapping[str, str]:
    """By server: what it says of itself, where that is known."""
    if name == _OWN:
        return {listing.server: listing.instructions for listing in universe()}
    return {row["server"]: row["description"] for row in _rows(f"{name}.servers")} if name in _DESCRIBED else {}


def documents(server: str, schemas: Iterable[ToolSchema]) -> list[ToolDoc]:
    """With the id in the place of the path."""
    return [ToolDoc(server, schema.name, f"{server}::{schema.name}", "", "", schema) for schema in schemas]


def simple_doc(
    server: str, tool: str, description: str = "", parameters: Iterable[str] = (), **described: str
) -> ToolDoc:
    """A tool as a server might list it; `described` are parameters with what is said of them."""
    properties: dict[str, Any] = {name: {"type": "string"} for name in parameters}
    properties |= {name: {"type": "string", "description": text} for name, text in described.items()}
    schema = ToolSchema(tool, description, {"type": "object", "properties": properties})
    path = f"servers/{server}/{tool}.py"
    return ToolDoc(server, tool, path, f"{tool}({', '.join(properties)})", description.partition(".")[0], schema)


def fill(index: ToolIndex, name: str) -> None:
    """Index all tools of a set."""
    for server, schemas in tools(name).items():
        index.replace_server(server, documents(server, schemas), instructions=instructions(name).get(server, ""))


def searching(index: ToolIndex) -> Search:
    """The index as it is judged: tools that share one hit count one by one."""

    @functools.cache
    def search(text: str, top: int) -> tuple[str, ...]:
        return tuple(found for hit in index.search(text, top) for found in (hit.path, *hit.also))[:top]

    return search


def recall(search: Search, asked: Iterable[Question], top: int) -> float:
    """Percent of the needed tools that are among the first `top`, a mean over the questions."""
    return _percent(_share(question, search(question.text, top)) for question in asked)


def servers_found(search: Search, asked: Iterable[Question], top: int) -> float:
    """Percent of the questions that have a right server among the `top` best servers."""

    def hit(question: Question) -> float:
        ranked = dict.fromkeys(_server(found) for found in search(question.text, _FURTHER))
        return float(not question.servers.isdisjoint(list(ranked)[:top]))

    return _percent(map(hit, asked))


def by_task(search: Search, asked: Iterable[Question], top: int) -> tuple[float, float]:
    """Percent of the needed tools, and of the tasks with a right server, in what all questions of a task found."""
    found: dict[str, set[str]] = {}
    tasks: dict[str, Question] = {}
    for question in asked:
        tasks.setdefault(question.task, question)
        found.setdefault(question.task, set()).update(search(question.text, top))
    tool = _percent(_share(question, found[task]) for task, question in tasks.items())
    server = _percent(
        float(not question.servers.isdisjoint(map(_server, found[task]))) for task, question in tasks.items()
    )
    return tool, server


def _share(question: Question, found: Iterable[str]) -> float:
    known = frozenset(found)
    return sum(not known.isdisjoint(group) for group in question.groups) / max(1, len(question.groups))


def _server(found: str) -> str:
    return found.partition("::")[0]


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return 100 * sum(listed) / len(listed)


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(f"{_DATA}/{name}.jsonl.xz", lzma.open)]

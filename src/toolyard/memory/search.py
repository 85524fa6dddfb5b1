"""Searches memories: by keywords with a ranking (BM25 over entries), or by pattern with ripgrep over the files.

Both search only what the agent may read. A damaged memory (invalid content, a symbolic link in its place) is reported
in `faults` and does not prevent searching the others.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.config.memory_access import MemoryAccess, reachable_agents
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.files.roots import Root
from toolyard.files.safe_paths import open_folder
from toolyard.files.search import GrepQuery, GrepResult, grep
from toolyard.memory.memory import FACTS, HISTORY, PATTERNS, PREFERENCES, Memory
from toolyard_runtime.ranking import rank

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules

_MOST_HITS = 100

VisibilityCheck = Callable[[str, str], bool]
"""Whether a file, given by agent and file name, may be searched."""


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """An entry of a memory that matches a query."""

    agent: str
    file: str
    """The name of the file in that agent's memory."""
    id: str
    """The id of a fact or task, the title of a pattern, or the key of a preference."""
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    """The best hits, and the files that could not be searched."""

    hits: tuple[MemoryHit, ...]
    faults: tuple[str, ...]
    """Files that could not be read, each with the reason; the others were searched."""


def search_memories(
    root: Root, agent: str, query: str, rules: Mapping[str, MemoryRules], *, top: int = 10
) -> MemorySearchResult:
    """Returns the entries nearest to the query in every memory that the agent may read."""
    return search_agents(root, reachable_agents(agent, MemoryAccess.READ, rules), query, top=top)


def search_agents(
    root: Root, agents: Iterable[str], query: str, *, top: int = 10, visible: VisibilityCheck | None = None
) -> MemorySearchResult:
    """Returns the entries nearest to the query in the `visible` files of these agents' memories."""
    faults: list[str] = []
    entries = [entry for agent in agents for entry in entries_of(Memory(root, agent), faults, visible)]
    # The topic is part of the text; the id is included so that an entry seen in a list can be found.
    best = rank(query, [f"{entry.id} {entry.text}" for entry in entries], min(top, _MOST_HITS))
    hits = [
        MemoryHit(entry.agent, entry.file, entry.id, entry.text, round(score, 4))
        for score, position in best
        for entry in (entries[position],)
    ]
    return MemorySearchResult(tuple(hits), tuple(faults))


def entries_of(memory: Memory, faults: list[str], visible: VisibilityCheck | None = None) -> Iterator[MemoryHit]:
    """Yields all entries of a memory, file by file. A file that cannot be read is added to `faults`."""
    readers = {
        FACTS: lambda: [
            (fact.id, f"{fact.topic}: {fact.text}" if fact.topic else fact.text) for fact in memory.facts()
        ],
        HISTORY: lambda: [(task.id, f"{task.description} {task.outcome}".strip()) for task in memory.history()],
        PATTERNS: lambda: [(pattern.title, pattern.text) for pattern in memory.patterns()],
        PREFERENCES: lambda: [
            (key, f"{key}: {json.dumps(value, ensure_ascii=False)}") for key, value in memory.preferences().items()
        ],
    }
    for file, read in readers.items():
        if visible is not None and not visible(memory.agent, file):
            continue
        try:
            found = read()
        except ToolyardError as error:
            faults.append(str(error))
        else:
            yield from (MemoryHit(memory.agent, file, identity, text, 0.0) for identity, text in found)


@dataclass(frozen=True, slots=True)
class MemoryGrepResult:
    """Matches by agent, and the memories that could not be searched."""

    results: Mapping[str, GrepResult]
    """By agent; an agent without a memory has no entry."""
    faults: tuple[str, ...]
    """Memories that could not be searched, each with the reason."""


def grep_memories(
    root: Root,
    agent: str,
    query: GrepQuery,
    rules: Mapping[str, MemoryRules],
    *,
    limits: Limits = DEFAULT_LIMITS,
    cancel: threading.Event | None = None,
) -> MemoryGrepResult:
    """Runs ripgrep in each memory that the agent may read."""
    return grep_agents(root, reachable_agents(agent, MemoryAccess.READ, rules), query, limits=limits, cancel=cancel)


def grep_agents(
    root: Root,
    agents: Iterable[str],
    query: GrepQuery,
    *,
    limits: Limits = DEFAULT_LIMITS,
    cancel: threading.Event | None = None,
) -> MemoryGrepResult:
    deadline = time.monotonic() + limits.call_seconds
    stop = cancel or threading.Event()
    results: dict[str, GrepResult] = {}
    faults: list[str] = []
    for agent in agents:
        folder = Memory(root, agent).folder
        prefix = f"{root.path.rstrip('/')}/{folder}/"
        try:
            if not _folder_exists(root, folder):
                continue
        except ToolyardError as error:
            faults.append(str(error))
            continue
        results[agent] = grep(
            root,
            folder,
            query,
            visible=lambda path, prefix=prefix: path.startswith(prefix),
            limits=limits,
            cancel=stop,
            deadline=deadline,
        )
    return MemoryGrepResult(results, tuple(faults))


def _folder_exists(root: Root, folder: str) -> bool:
    """Whether the folder exists. Raises for a symbolic link, which could lead to another agent's memory."""
    fd = open_folder(root, folder)
    if fd is None:
        return False
    os.close(fd)
    return True

"""Searching memories: by keyword with a ranking (BM25 over entries), or by pattern with ripgrep over the files.

Both look into what the agent may read and nothing else.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import ToolError
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.fs.roots import Root
from toolyard.fs.search import GrepQuery, GrepResult, grep
from toolyard.workspace.memory.access import Wish, reachable
from toolyard.workspace.memory.memory import FACTS, HISTORY, PATTERNS, PREFERENCES, Memory
from toolyard.workspace.memory.ranking import rank
from toolyard.workspace.places import open_folder

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules

_MOST_HITS = 100


@dataclass(frozen=True, slots=True)
class MemoryHit:
    agent: str
    file: str
    """Of which file of that agent's memory."""
    id: str
    """A fact's or a task's id, a pattern's title, a preference's key."""
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    hits: tuple[MemoryHit, ...]
    faults: tuple[str, ...]
    """Files that could not be read, each with the reason; the others were searched."""


def search_memories(root: Root, agent: str, query: str, rules: Mapping[str, MemoryRules], *, top: int = 10) -> Found:
    """The entries nearest to the query, of every memory that the agent may read."""
    faults: list[str] = []
    entries = [
        entry for other in reachable(agent, Wish.READ, rules) for entry in _entries(Memory(root, other), faults)
    ]
    # The topic counts as a part of the text; the id finds what was seen in a list.
    best = rank(query, [f"{entry.id} {entry.text}" for entry in entries], min(top, _MOST_HITS))
    hits = [
        MemoryHit(entry.agent, entry.file, entry.id, entry.text, round(score, 4))
        for score, position in best
        for entry in (entries[position],)
    ]
    return Found(tuple(hits), tuple(faults))


def _entries(memory: Memory, faults: list[str]) -> Iterator[MemoryHit]:
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
        try:
            found = read()
        except ToolError as error:
            faults.append(str(error))
        else:
            yield from (MemoryHit(memory.agent, file, identity, text, 0.0) for identity, text in found)


def grep_memories(
    root: Root,
    agent: str,
    query: GrepQuery,
    rules: Mapping[str, MemoryRules],
    *,
    limits: Limits = DEFAULT_LIMITS,
    cancel: threading.Event | None = None,
) -> dict[str, GrepResult]:
    """What ripgrep finds in each memory that the agent may read and that is there, by agent."""
    deadline = time.monotonic() + limits.call_seconds
    stop = cancel or threading.Event()
    results: dict[str, GrepResult] = {}
    for other in reachable(agent, Wish.READ, rules):
        folder = Memory(root, other).folder
        if not _is_there(root, folder):
            continue
        prefix = f"{root.path.rstrip('/')}/{folder}/"
        results[other] = grep(
            root,
            folder,
            query,
            visible=lambda path, prefix=prefix: path.startswith(prefix),
            limits=limits,
            cancel=stop,
            deadline=deadline,
        )
    return results


def _is_there(root: Root, folder: str) -> bool:
    """Links are refused here: one in the place of a memory could lead to somebody else's."""
    fd = open_folder(root, folder)
    if fd is None:
        return False
    os.close(fd)
    return True

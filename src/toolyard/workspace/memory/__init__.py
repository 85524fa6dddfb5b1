"""What an agent keeps from one session to the next, in files that people and programs can read and write.

`Memory` is one agent's folder, `may` says who reaches whose, `Tasks` is what an agent is doing.

Whoever opens a workspace needs the rules alone; the rest, and the YAML it reads, is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from toolyard.workspace.memory.access import Wish, may, require, rules_of

if TYPE_CHECKING:
    from toolyard.workspace.memory.facts import Fact
    from toolyard.workspace.memory.memory import Memory
    from toolyard.workspace.memory.searching import MemoryHit, grep_memories, search_memories

__all__ = ["Fact", "Memory", "MemoryHit", "Wish", "grep_memories", "may", "require", "rules_of", "search_memories"]

_LATER = {
    "Fact": "facts",
    "Memory": "memory",
    "MemoryHit": "searching",
    "grep_memories": "searching",
    "search_memories": "searching",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)

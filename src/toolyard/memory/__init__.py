"""What an agent keeps from one session to the next, in files that people and programs can read and write.

`Memory` is one agent's folder, `may_access` says who reaches whose, `Tasks` is what an agent is doing.

Whoever opens a workspace needs the rules alone; the rest, and the YAML it reads, is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from toolyard.config.memory_access import MemoryAccess, may_access, memory_rules, require_access

if TYPE_CHECKING:
    from toolyard.memory.facts import Fact
    from toolyard.memory.memory import Memory
    from toolyard.memory.search import MemoryHit, grep_memories, search_memories

__all__ = [
    "Fact",
    "Memory",
    "MemoryAccess",
    "MemoryHit",
    "grep_memories",
    "may_access",
    "memory_rules",
    "require_access",
    "search_memories",
]

_LAZY_MODULES = {
    "Fact": "facts",
    "Memory": "memory",
    "MemoryHit": "search",
    "grep_memories": "search",
    "search_memories": "search",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY_MODULES[name]}"), name)

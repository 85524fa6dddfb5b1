"""What an agent remembers between sessions, in files that people and programs can read and edit.

`Memory` is one agent's folder, `may_access` decides who may access whose memory, and `Tasks` is what an agent is
doing. Opening a workspace needs only the access rules; everything else, and the YAML parser, is imported on first
use.
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

"""What an agent keeps from one session to the next, in files that people and programs can read and write.

`Memory` is one agent's folder, `may` says who reaches whose, `Tasks` is what an agent is doing.
"""

from toolyard.workspace.memory.access import Wish, may, require, rules_of
from toolyard.workspace.memory.facts import Fact
from toolyard.workspace.memory.memory import Memory
from toolyard.workspace.memory.searching import MemoryHit, grep_memories, search_memories

__all__ = ["Fact", "Memory", "MemoryHit", "Wish", "grep_memories", "may", "require", "rules_of", "search_memories"]

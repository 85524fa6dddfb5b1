"""Memories of mem0, read from where its local vector stores keep them and written as facts."""

from toolyard.workspace.memory.mem0.importing import Imported, import_mem0
from toolyard.workspace.memory.mem0.records import Mem0Memory
from toolyard.workspace.memory.mem0.stores import StoreContents, read_store

__all__ = ["Imported", "Mem0Memory", "StoreContents", "import_mem0", "read_store"]

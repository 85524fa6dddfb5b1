"""Imports memories of mem0 from its local vector stores as facts."""

from toolyard.memory.mem0.importer import ImportSummary, import_mem0
from toolyard.memory.mem0.records import Mem0Memory
from toolyard.memory.mem0.stores import StoreContents, read_store

__all__ = ["ImportSummary", "Mem0Memory", "StoreContents", "import_mem0", "read_store"]

"""Outlines by tree-sitter, parsed in a process of their own. Imports nothing, so that process starts quickly."""

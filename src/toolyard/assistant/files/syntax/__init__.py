"""Outlines by tree-sitter, parsed in a separate process. Imports nothing, so that the process starts quickly."""

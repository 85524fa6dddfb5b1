"""The tools themselves, one module a group."""

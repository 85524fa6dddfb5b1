"""Code mode: tools as typed Python files, found by search and called from the sandbox through the broker."""
